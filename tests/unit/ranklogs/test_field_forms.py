"""Forms of launchers and collectors as the field has them: one failing rank, told by each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.ranklogs import place_of, raised_first
from postmortem import _native
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers.ranklogs.known_lines import keep_literals
from postmortem.report.model import Report

Golden = Callable[[str, str], None]

STEPS = [f"step {step} loss 2.{step}" for step in range(12)]
RAISED = [
    "Traceback (most recent call last):",
    '  File "/opt/llm/train.py", line 26, in load_batch',
    '    return {"tokens": [1]}["input_ids"]',
    "KeyError: 'input_ids'",
]
RAISED_AT = ("KeyError: 'input_ids'", ("train.py", 26, "load_batch"))
RANKS = [(rank, text) for text in STEPS for rank in range(4)] + [(2, text) for text in RAISED]


def report_of(tmp_path: Path, lines: list[str], name: str = "job.log") -> tuple[Report, Any]:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    report = analyse([str(path)], RankLogOptions())
    body: Any = report.body
    return report, body["first_failure"]


@pytest.mark.parametrize(
    ("form", "label"),
    [
        ("[1,mpirank:{rank},algo-{host}]<stderr>:{text}", "2"),
        ("[1,{rank}]<stderr>: {text}", "2"),
        ("[pod/llm-worker-{rank}/pytorch] 2026-11-21T20:28:01.{rank}5Z {text}", "llm-worker-2"),
        ("Nov 21 20:28:01 gpu-a0{host} train[400{rank}]: {text}", "train pid=4002 ip=gpu-a02"),
        ("2026-11-21T20:28:01+00:00 gpu-a0{host} train[400{rank}]: {text}", None),
        ("(RayTrainWorker pid=400{rank}) {text}", "RayTrainWorker pid=4002"),
        ("[{rank}]<stderr>:{text}", "2"),
        ("Fri Sep 25 16:52:53 2020[{rank}]<stderr>:{text}", "2"),
        ("(VllmWorker rank={rank} pid=40{rank}) ERROR 05-01 10:00:09 [core.py:375] {text}", None),
        ("(Worker_TP{rank}_EP{rank} pid=40{rank}) ERROR 05-01 10:00:09 core.py:375] {text}", None),
        ("(Worker_DP0_TP{rank} pid=40{rank}) {text}", "Worker_DP0_TP2 pid=402"),
    ],
)
def test_the_rank_is_told(tmp_path: Path, form: str, label: str | None) -> None:
    lines = [form.format(rank=rank, host=rank // 2 + 1, text=text) for rank, text in RANKS]
    report, first = report_of(tmp_path, lines)
    assert (first["what"], place_of(report)) == RAISED_AT
    assert label in (None, first["label"], first["host"])
    assert first["ranks"] in ([2], [])


@pytest.mark.parametrize(
    "head",
    [
        "[2025-02-26 12:01:56 TP{rank}] ",
        "[2025-02-26 12:01:56 DP0 TP{rank} EP{rank}] ",
        "2024-05-01 10:00:00,123: rank{rank}[40{rank}][MainThread]: ERROR: sched: ",
    ],
)
def test_a_logger_says_its_rank_once_a_record(tmp_path: Path, head: str) -> None:
    lines = [head.format(rank=rank) + text for rank, text in RANKS[: len(STEPS) * 4]]
    lines += [head.format(rank=2) + "Scheduler hit an exception: " + RAISED[0], *RAISED[1:]]
    lines += [head.format(rank=3) + "still here", "and so is this line of nobody"]
    report, first = report_of(tmp_path, lines)
    assert first["ranks"] == [2]
    assert (first["what"], place_of(report)) == RAISED_AT
    written = {w["label"]: w["lines"] for w in report.body["ranks"]}  # type: ignore[index]
    assert written["2"] == len(STEPS) + len(RAISED)


@pytest.mark.parametrize(
    "line",
    [
        "[2025-02-26 12:01:56 XX2] text",
        "[2025-02-26 12:01:56 PP1 TP2] text",
        "[2025-02-26 12:01:56 TP2]text",
        "2024-05-01 10:00:00,123: rank2[MainThread]: INFO: text",
        "ERROR 05-01 10:00:09 text",
        "==> Downloading <== x",
        "----------Begin global rank x STDERR----------",
    ],
)
def test_what_only_looks_like_a_head_names_nobody(line: str) -> None:
    pieces = iter([f"{line}\nTraceback (most recent call last):\n".encode()])
    found = _native.read_ranklog(lambda: next(pieces, b""), keep_literals())
    assert [label["lines"] for label in found["labels"]] == [2]


def test_tail_shows_the_ends_of_many_files(tmp_path: Path) -> None:
    lines = []
    for rank in range(4):
        lines += [f"==> logs/rank_{rank}.log <==", *STEPS[-3:], *(RAISED if rank == 2 else ()), ""]
    lines += ["==> logs/rank_0.log <==", "bye"]
    report, first = report_of(tmp_path, lines)
    assert first["ranks"] == [2]
    assert (first["what"], place_of(report)) == RAISED_AT
    lines = [line.replace("rank_", "part-") for line in lines]
    report, first = report_of(tmp_path, lines)
    assert first["label"] == "part-2.log"


def test_open_mpi_has_a_folder_for_each_rank(tmp_path: Path) -> None:
    for rank in range(3):
        folder = tmp_path / "out" / "1" / f"rank.{rank}"
        folder.mkdir(parents=True)
        (folder / "stdout").write_text("\n".join(STEPS) + "\n")
        (folder / "stderr").write_text("\n".join(RAISED if rank == 2 else ["ready"]) + "\n")
    report = analyse([str(tmp_path / "out")], RankLogOptions())
    assert raised_first(report) == (2, RAISED_AT[0])
    assert any(e.where == "rank.2/stderr:4" for d in report.diagnoses for e in d.evidence)


def test_docker_writes_json(tmp_path: Path) -> None:
    said = ['a \\ "quote" & a tab\tand <b>', *STEPS, *RAISED]
    lines = [
        json.dumps({"log": text + "\n", "stream": "stderr", "time": "T"}, separators=(",", ":"))
        for text in said
    ]
    report, first = report_of(tmp_path, lines, "4f2a-json.log")
    assert first is not None
    assert (first["what"], place_of(report)) == RAISED_AT
    cut = [line[: len(line) // 2] for line in lines]  # a disk that was full
    assert report_of(tmp_path, cut)[1] is None


def test_ray_tells_which_worker_raised(tmp_path: Path) -> None:
    lines = [
        "(TrainController pid=90) - (ip=10.0.0.4, pid=4002) world_rank=3, local_rank=1",
        *[f"(RayTrainWorker pid=4002, ip=10.0.0.4) {text}" for text in STEPS],
        "Traceback (most recent call last):",
        '  File "/opt/llm/main.py", line 24, in <module>',
        "    trainer.fit()",
        "ray.exceptions.RayTaskError(KeyError): ray::RayTrainWorker.execute() (pid=4002, "
        "ip=10.0.0.4, actor_id=1984, repr=<worker>)",
        *RAISED[1:],
    ]
    report, first = report_of(tmp_path, lines)
    assert first["ranks"] == [3]
    assert (first["what"], place_of(report)) == RAISED_AT


@pytest.mark.parametrize("rank", ["", "[rank1]: "])
def test_an_error_that_work_goes_on_after_is_none(tmp_path: Path, rank: str) -> None:
    lines = [*STEPS, *RAISED, "retrying upload 1 of 5", *STEPS[:6]]
    report, first = report_of(tmp_path, [rank + line for line in lines])
    assert (report.failed, first) == (False, None)
    report, first = report_of(tmp_path, [rank + line for line in lines[:-6]])
    assert report.failed


def test_slurm_ends_the_others(tmp_path: Path) -> None:
    lines = [
        *[f"{rank}: {text}" for rank, text in RANKS[:40]],
        *["3: [rank3]: RuntimeError: Connection closed by peer [10.0.0.1]:5"] * 2,
        "srun: error: gpu-a01: task 1: Out Of Memory",
        "srun: launch/slurm: _step_signal: Terminating StepId=7.0",
        "0: slurmstepd: error: *** STEP 7.0 ON gpu-a01 CANCELLED AT 2026-11-21T20:31:39 ***",
        "srun: error: gpu-a02: tasks 2-3: Killed",
        "srun: error: gpu-a01: task 0: Terminated",
    ]
    report, first = report_of(tmp_path, lines)
    assert (first["ranks"], first["host"]) == ([1], "gpu-a01")
    ended = {row["rank"]: (row["signal"], row["memory"]) for row in report.body["exits"]}  # type: ignore[attr-defined]
    assert ended[1] == ("SIGKILL", True)


@pytest.mark.parametrize(
    "line",
    [
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
        "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
        "=>> PBS: job killed: walltime 3620 exceeded limit 3600",
    ],
)
def test_batch_systems_say_why_they_stop(tmp_path: Path, line: str, golden: Golden) -> None:
    report, first = report_of(tmp_path, [*STEPS, line])
    assert first is None
    assert [one.id for one in report.diagnoses] == ["stopped_from_outside"]
    golden(f"stopped_by_{line.split(':')[0].strip('=> ')}.txt", f"{report.verdict}\n")


def test_a_limit_of_any_kind_is_a_reason_to_stop(tmp_path: Path, golden: Golden) -> None:
    said = "=>> PBS: job killed: {}"
    limit, _ = report_of(tmp_path, [*STEPS, said.format("ncpus 9.71 exceeded limit 4 (sum)")])
    none, _ = report_of(tmp_path, [*STEPS, said.format("ncpus 9.71 of 40")])
    golden("stopped_by_limits.txt", f"{limit.verdict}\n{none.verdict}\n")


def test_a_table_of_jobs_beside_makes_no_error_of_a_stop(tmp_path: Path) -> None:
    stop = (
        "slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2026-11-21T02:03:32 DUE TO PREEMPTION ***"
    )
    lines = [*STEPS, stop, *RAISED]
    (tmp_path / "slurm-71.out").write_text("\n".join(lines) + "\n")
    (tmp_path / "accounts.txt").write_text("JobID JobName State\n71 train PREEMPTED 0:0\n")
    (told,) = analyse([str(tmp_path)], RankLogOptions()).diagnoses
    assert told.id == "stopped_from_outside"


@pytest.mark.parametrize(("stop", "first"), [("JOB 71", True), ("STEP 71.0", False)])
def test_what_is_raised_behind_the_end_of_the_whole_job_is_of_its_end(
    tmp_path: Path, stop: str, first: bool
) -> None:
    """A tool of the site that reports on the job, or a handler; a step may end by the error."""
    line = f"slurmstepd: error: *** {stop} ON n1 CANCELLED AT 2026-11-21T02:03:32 ***"
    for lines, stopped in (([line, *RAISED], first), ([*RAISED, line], False)):
        report, _ = report_of(tmp_path, [*STEPS, *lines])
        told = "stopped_from_outside" if stopped else "rank_raised"
        assert report.diagnoses[0].id == told


def test_tasks_in_the_names_of_files(tmp_path: Path) -> None:
    for task in range(3):
        failed = RAISED if task == 1 else []
        (tmp_path / f"llm-24.0-{task}.out").write_text("\n".join([*STEPS, *failed]) + "\n")
    body: Any = analyse([str(tmp_path)], RankLogOptions()).body
    assert body["first_failure"]["ranks"] == [1]
    assert [row["host"] for row in body["ranks"]] == [None] * 3


def test_output_that_mpirun_forwards_late_is_no_work_that_goes_on(tmp_path: Path) -> None:
    def tagged(rank: int, stream: str, text: str) -> str:
        return f"[1,{rank}]<{stream}>:{text}"

    before = [tagged(rank, "stdout", text) for text in STEPS[:3] for rank in range(4)]
    raised = [tagged(2, "stderr", text) for text in RAISED]
    # mpi4py: the others wait in MPI_Allreduce, rank 2 in MPI_Finalize, and nobody ends.
    late = [tagged(rank, "stdout", STEPS[3]) for rank in (2, 1, 3)]
    report, first = report_of(tmp_path, [*before, *raised, *late])
    assert first["ranks"] == [2]
    assert (first["what"], place_of(report)) == RAISED_AT
    same = [tagged(2, "stderr", STEPS[3])]
    of_one = [line.replace("stdout", "stderr") for line in before]
    assert report_of(tmp_path, [*of_one, *raised, *same])[1] is None
    more = [tagged(2, "stdout", text) for text in STEPS[3:9]]
    assert report_of(tmp_path, [*before, *raised, *more])[1] is None


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        (["gpt2.log"], {None}),
        (["gpt2.log", "llama7b.log"], {None}),
        (["node7.log"], {"node7"}),
        (["alpha01.log", "alpha02.log"], {"alpha01", "alpha02"}),
    ],
)
def test_files_named_after_models_are_no_hosts(
    tmp_path: Path, names: list[str], hosts: set[str | None]
) -> None:
    for rank, name in enumerate(names):
        (tmp_path / name).write_text("\n".join(f"[rank{rank}]: {text}" for text in STEPS) + "\n")
    body: Any = analyse([str(tmp_path / name) for name in names], RankLogOptions()).body
    assert {row["host"] for row in body["ranks"]} == hosts


@pytest.mark.parametrize(
    ("head", "rank"),
    [
        ("rank: {rank:2} | ", 2),
        ("(rank {rank}) ", 2),
        ("2026-01-02T03:04:05Z RANK={rank} ", 2),
        ("<{rank}> ", 2),
        ("stderr: ", None),
        ("unit tests\tRun all\t2026-01-02T03:04:05.678Z ", None),
        ("[gpu-a01:4{rank}711] ", None),
        ("gpu-a01 ~ {rank} ~ ", 2),
        ("2026-01-02 03:04:05.678\tworker-{rank}\tERROR\t", 2),
        ("[Rank {rank}] INFO: ", 2),
        ("[ERROR]  | run:4{rank} - ", None),
    ],
)
def test_what_stands_before_all_frames_is_a_prefix(
    tmp_path: Path, head: str, rank: int | None
) -> None:
    report, first = report_of(tmp_path, [head.format(rank=r) + text for r, text in RANKS])
    assert (first["what"], place_of(report)) == RAISED_AT
    assert first["rank"] == rank
    assert first["line"] == len(RANKS)


@pytest.mark.parametrize(
    ("head", "kept"), [("trainer ERROR run: ", "ERROR run: "), ("E   ", "E   "), ("  | ", "  | ")]
)
def test_a_level_or_what_a_test_runner_writes_before_frames_is_none(head: str, kept: str) -> None:
    text = "".join(f"{head}{line}\n" for line in RAISED).encode()
    pieces = iter([text])
    clean: list[bytes] = []
    _native.read_ranklog(
        lambda: next(pieces, b""), keep_literals(), sink=lambda _, piece: clean.append(piece)
    )
    assert b"".join(clean) == "".join(f"{kept}{line}\n" for line in RAISED).encode()
