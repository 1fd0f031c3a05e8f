"""Logs of several runs in one place are told apart, and what one job's ranks wrote is not."""

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from postmortem.cli.main import main
from postmortem.readers.inventory import take_inventory
from postmortem.readers.job_runs import runs_apart

NOW = 1_763_900_000
ERROR = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nKeyError: "lr"\n'


def write(path: Path, text: str, ended: float = NOW) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (ended, ended))


def names(folder: Path) -> list[str]:
    return [Path(run.name).name for run in runs_apart(take_inventory([str(folder)]))]


def triage(folder: Path, out: Path) -> tuple[int, dict[str, Any]]:
    code = main(["triage", str(folder), "--json", "-o", str(out)])
    return code, json.loads(out.read_text())


def steps(clock: str, minutes: int = 10) -> str:
    return "".join(
        f"2025-11-23 {clock}:{minute:02}:00 step {minute}\n" for minute in range(minutes)
    )


def summary(**pids: int) -> str:
    rows = "".join(
        f"[{n}]:\n  rank      : {rank[1:]} (local_rank: {n})\n  exitcode  : 1 (pid: {pid})\n"
        for n, (rank, pid) in enumerate(pids.items())
    )
    return f"ChildFailedError:\n{rows}Root Cause (first observed failure):\n"


def test_a_log_begun_after_a_like_one_had_ended_is_another_run(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    write(folder / "run1.log", steps("08") + ERROR, NOW)
    write(folder / "run2.log", steps("09"), NOW + 3600)
    assert names(folder) == ["run1.log", "run2.log"]
    code, found = triage(folder, tmp_path / "out.json")
    assert [(row["outcome"], row["again"], row["judged"]) for row in found["runs"]] == [
        ("failed", True, False),
        ("unknown", False, True),
    ]
    assert code == 0
    assert found["roots"] == []


@pytest.mark.parametrize(
    ("over", "begin", "runs"),
    [
        (summary(r0=11), "", ["train.log.1", "train.log"]),
        (summary(r0=11), "restarting the node's services\n", []),
        ("", "", []),
    ],
)
def test_a_log_that_was_set_aside_is_of_another_run_if_that_is_over(
    tmp_path: Path, over: str, begin: str, runs: list[str]
) -> None:
    """The same program began anew; else one run wrote on into another file."""
    write(tmp_path / "train.log.1", steps("08") + over)
    write(tmp_path / "train.log", begin + steps("09"), NOW + 3600)
    assert names(tmp_path) == runs


def test_of_copies_nobody_knows_which_came_again_and_the_failed_one_counts(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    write(folder / "slurm-90210.out", steps("08") + ERROR)
    write(folder / "slurm-90211.out", steps("09"))
    code, found = triage(folder, tmp_path / "out.json")
    assert code == 1
    runs = [(row["outcome"], row["judged"]) for row in found["runs"]]
    assert runs == [("failed", True), ("unknown", False)]


@pytest.mark.parametrize(
    ("first", "then", "runs"),
    [
        (steps("08") + ERROR, steps("09", 5), ["run7.log", "run8.log"]),
        (steps("09", 5), steps("08") + ERROR, ["run8.log", "run7.log"]),
        (steps("08"), steps("08"), []),
        ("loading\n" + steps("08"), "loading\n" + steps("09", 5), []),  # one of two may have waited
        (steps("08"), "at once " + steps("09", 5), []),
    ],
)
def test_copies_are_runs_by_their_own_clock_where_both_begin_alike(
    tmp_path: Path, first: str, then: str, runs: list[str]
) -> None:
    write(tmp_path / "run7.log", first)
    write(tmp_path / "run8.log", then)
    assert names(tmp_path) == runs


def test_a_job_s_number_may_be_short(tmp_path: Path) -> None:
    write(tmp_path / "slurm-101.out", "step 1\n")
    write(tmp_path / "slurm-102.out", "step 1\n")
    assert names(tmp_path) == ["slurm-101", "slurm-102"]


@pytest.mark.parametrize(
    ("beside", "judged"),
    [("step 1\njob ended with status 1, giving up\n", "b.log"), (ERROR, "loop.txt")],
)
def test_who_watched_the_runs_is_no_run(tmp_path: Path, beside: str, judged: str) -> None:
    write(tmp_path / "job" / "a.log", ERROR + summary(r0=11))
    write(tmp_path / "job" / "b.log", ERROR + summary(r0=21), NOW + 60)
    write(tmp_path / "job" / "watcher" / "loop.txt", beside, NOW + 90)
    _, found = triage(tmp_path / "job", tmp_path / "out.json")
    assert [Path(row["name"]).name for row in found["runs"] if row["judged"]] == [judged]


@pytest.mark.parametrize(("stamp", "apart"), [("08:15:09,417", False), ("08:15:09", True)])
def test_a_copy_of_a_log_that_a_tool_kept_is_of_its_run(
    tmp_path: Path, stamp: str, apart: bool
) -> None:
    line = f"2025-11-23 {stamp} - INFO - step 9\n"
    write(tmp_path / "outputs" / "2025-11-23" / "08-15-00" / "train.log", line + ERROR)
    write(tmp_path / "tracker" / "run-20251123_081501-a1b2" / "output.log", line)
    assert (len(names(tmp_path)) == 2) is apart


def test_nodes_whose_clocks_differ_are_one_job(tmp_path: Path) -> None:
    """They were written to until the same time, whatever their own clocks say."""
    write(tmp_path / "runs" / "run1.log", steps("04"))
    write(tmp_path / "runs" / "run2.log", steps("09"), NOW + 2)
    assert names(tmp_path) == ["run1.log", "run2.log"]
    shutil.rmtree(tmp_path / "runs")
    write(tmp_path / "train1.log", steps("04"))
    write(tmp_path / "train2.log", steps("09"), NOW + 2)
    assert names(tmp_path) == []


def test_one_rank_with_two_processes_is_two_jobs_and_nodes_have_other_ranks(tmp_path: Path) -> None:
    write(tmp_path / "jobs" / "a.log", summary(r0=11, r1=12))
    write(tmp_path / "jobs" / "b.log", summary(r0=21))
    write(tmp_path / "nodes" / "a.log", summary(r0=11, r1=12))
    write(tmp_path / "nodes" / "b.log", summary(r2=21))
    assert names(tmp_path / "jobs") == ["a.log", "b.log"]
    assert names(tmp_path / "nodes") == []


def test_ranks_that_opened_their_logs_together_are_one_run(tmp_path: Path) -> None:
    for name in ("out_20251123_081500.log", "out_20251123_081503.log"):
        write(tmp_path / name, "step 1\n")
    assert names(tmp_path) == []
    write(tmp_path / "out_20251123_092000.log", "step 1\n")
    assert len(names(tmp_path)) == 2
    write(tmp_path / "out_20251123_081500.log", "2025-11-23 09:30:00 step 1\n")
    assert names(tmp_path) == []


@pytest.mark.parametrize(("ended", "runs"), [(NOW - 7200, ["first", "second"]), (NOW - 3600, [])])
def test_logs_of_different_folders_are_runs_where_one_began_long_after_the_other(
    tmp_path: Path, ended: int, runs: list[str]
) -> None:
    write(tmp_path / "first" / "train.log", steps("08") + ERROR, ended)
    write(tmp_path / "second" / "train.log", steps("10"), NOW)
    write(tmp_path / "second" / "notes.log", "queue: gpu\n", NOW)
    assert names(tmp_path) == runs
    code, report = triage(tmp_path, tmp_path.parent / "report.json")
    assert [one["files"][0] for one in report["runs"] if one["judged"]] == (
        [str(tmp_path / "first" / "train.log")] if runs else []
    )
    assert code == 1


def test_nodes_of_one_run_stay_together_beside_an_earlier_one(tmp_path: Path) -> None:
    write(tmp_path / "before" / "node1.log", steps("08"), NOW - 7200)
    for node in (1, 2):
        write(tmp_path / f"host{node}" / f"node{node}.log", steps("10"), NOW + node)
    assert names(tmp_path) == ["node1.log", "host1"]


def test_a_log_that_was_begun_while_another_one_hung_is_of_its_job(tmp_path: Path) -> None:
    write(tmp_path / "log.0", steps("10", 1), NOW - 900)
    write(tmp_path / "log.1", steps("10", 2) + ERROR, NOW)
    assert names(tmp_path) == []


@pytest.mark.parametrize(("above", "runs"), [("epoch 3 ok", []), ("hello", ["n0.log", "n1.log"])])
def test_a_log_whose_work_has_no_times_began_nobody_knows_when(
    tmp_path: Path, above: str, runs: list[str]
) -> None:
    write(tmp_path / "n1.log", "epoch 3 ok\n" + ERROR, NOW - 90)
    write(tmp_path / "n0.log", f"{above}\nSIGTERM caught at 2025-11-23 08:13:20\n", NOW)
    assert sorted(names(tmp_path)) == runs


def test_a_folder_of_another_try_of_one_name_came_again(tmp_path: Path) -> None:
    write(tmp_path / "run_1" / "train.log", steps("08") + ERROR, NOW - 7200)
    write(tmp_path / "run_2" / "train.log", steps("10"), NOW)
    assert triage(tmp_path, tmp_path.parent / "report.json")[0] == 0


def test_a_packed_log_of_before_is_another_run(tmp_path: Path) -> None:
    for name, pid, ended in (("train.log", 12, NOW), ("train.log.1", 9, NOW - 86400)):
        write(tmp_path / name, f"{steps('08')}{ERROR}{summary(r0=pid)}", ended)
    old = tmp_path / "train.log.1"
    packed = old.with_suffix(".1.gz")
    packed.write_bytes(gzip.compress(old.read_bytes()))
    old.unlink()
    os.utime(packed, (NOW - 86400, NOW - 86400))
    assert names(tmp_path) == ["train.log.1.gz", "train.log"]


@pytest.mark.parametrize(
    ("folder", "beside", "told"),
    [
        ("attempt_{}", "", ["attempt_0", "attempt_1"]),
        ("retry-{}", "", ["retry-0", "retry-1"]),
        ("attempt_{}", "launcher.log", []),
        ("node{}", "", []),
        ("none_ab/attempt_{}/0", "", []),  # of one torchrun
    ],
)
def test_folders_that_are_called_after_attempts_are_runs(
    tmp_path: Path, folder: str, beside: str, told: list[str]
) -> None:
    for number in (0, 1):
        write(tmp_path / folder.format(number) / "stderr.log", f"step 1\n{ERROR}", NOW + number)
    if beside:
        write(tmp_path / beside, "starting\n", NOW + 9)
    assert names(tmp_path) == told


@pytest.mark.parametrize(
    ("folder", "text", "judged"),
    [
        ("old", ERROR.replace("KeyError", "ValueError"), "job.log"),
        ("backup-2", "step 1\nTraining complete.\n", "job.log"),
        ("prev", "step 1\n", "prev"),
        ("oldenburg", "step 1\n", None),
    ],
)
def test_what_lies_in_a_folder_of_old_ones_counts_where_the_others_say_nothing(
    tmp_path: Path, folder: str, text: str, judged: str | None
) -> None:
    write(tmp_path / folder / "job.log", steps("10") + ERROR)
    write(tmp_path / "job.log", text)
    code, report = triage(tmp_path, tmp_path.parent / "report.json")
    assert [Path(one["name"]).name for one in report["runs"] if one["judged"]] == (
        [judged] if judged else []
    )
    assert code == ("complete" not in text)
    assert "ValueError" not in text or "ValueError" in report["verdict"]


def test_numbers_that_may_be_processes_prove_nothing(tmp_path: Path) -> None:
    for number in (31_001, 31_002):
        write(tmp_path / f"train-{number}.log", steps("08"))
        write(tmp_path / f"worker-{number}.out", steps("08"))
    assert names(tmp_path) == []


def test_tasks_of_a_step_are_no_runs_and_those_of_an_array_are(tmp_path: Path) -> None:
    for task in range(3):
        write(tmp_path / "step" / f"train-4711-{task}.out", "step 1\n")
        write(tmp_path / "array" / f"slurm-4711_{task}.out", "step 1\n")
    assert names(tmp_path / "step") == []
    assert names(tmp_path / "array") == [f"slurm-4711_{task}" for task in range(3)]


def test_any_run_of_a_sweep_that_failed_counts(tmp_path: Path) -> None:
    """Hydra's runs are no repetitions of each other, whenever they ended."""
    folder = tmp_path / "multirun" / "2025-11-23" / "08-15-00"
    write(folder / "multirun.yaml", "lr: 1,2\n")
    write(folder / "0" / "train.log", steps("08") + ERROR)
    write(folder / "1" / "train.log", steps("09"), NOW + 3600)
    code, found = triage(tmp_path / "multirun", tmp_path / "out.json")
    assert code == 1
    assert [(row["outcome"], row["judged"]) for row in found["runs"]] == [
        ("failed", True),
        ("unknown", False),
    ]


@pytest.mark.parametrize(("end", "judged"), [(ERROR, "arr-7100_1"), ("", "sacct.txt")])
def test_a_list_of_jobs_counts_where_no_log_of_them_failed(
    tmp_path: Path, end: str, judged: str
) -> None:
    for task in (0, 1, 2):
        write(tmp_path / f"arr_7100_{task}.out", steps("08") + (end if task == 1 else ""))
    rows = "".join(f"7100_{task}  arr  CANCELLED+  0:0\n" for task in (1, 2))
    write(tmp_path / "sacct.txt", f"JobID  JobName  State  ExitCode\n{rows}")
    found = triage(tmp_path, tmp_path.parent / "out.json")[1]
    assert [Path(row["name"]).name for row in found["runs"] if row["judged"]] == [judged]


def test_what_lies_beside_a_sweep_is_none_of_its_runs(tmp_path: Path, prose: Prose) -> None:
    write(tmp_path / "multirun.yaml", "lr: 1,2\n")
    for run in "01":
        write(tmp_path / run / "train.log", steps("08"))
    write(tmp_path / "console.txt", ERROR, NOW + 60)
    _, found = triage(tmp_path, tmp_path.parent / "out.json")
    prose(found["verdict"].partition(";")[0])


def test_a_run_that_ends_with_a_word_like_an_error_is_not_counted_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "array"
    write(folder / "slurm-4711_0.out", steps("08"))
    write(folder / "slurm-4711_1.out", steps("08") + "shard 3 is lost\n")
    code, found = triage(folder, tmp_path / "out.json")
    assert code == 1
    assert [row["outcome"] for row in found["runs"]] == ["unknown", "unknown"]
    assert [row["judged"] for row in found["runs"]] == [False, True]
    write(folder / "slurm-4711_2.out", steps("08") + ERROR)
    code, found = triage(folder, tmp_path / "out.json")
    assert found["outcome"] == "failed"
    assert [row["outcome"] for row in found["runs"]] == ["unknown", "unknown", "failed"]


def bundle(folder: Path, command: str, began: float, ended: float) -> None:
    """Write what one node's run has left."""
    said = {"schema": "postmortem-run/1", "command": command.split(), "began": began}
    write(folder / "manifest.json", json.dumps(said | {"ended": ended}))
    write(folder / "logs" / "rank0.log", ERROR, ended)


def test_nodes_of_one_job_that_ended_far_apart_are_one_run(tmp_path: Path) -> None:
    job = "torchrun --nnodes 2 --node-rank"
    name = "postmortem-20251123-12{:02}00-h{}-7"
    bundle(tmp_path / "node0" / name.format(1, 0), f"{job} 0 job.py", NOW, NOW + 60)
    bundle(tmp_path / "node1" / name.format(9, 1), f"{job} 1 job.py", NOW + 1, NOW + 540)
    assert names(tmp_path) == []


def test_a_job_that_began_when_another_one_had_ended_is_another_run(tmp_path: Path) -> None:
    bundle(tmp_path / "first", "python job.py", NOW, NOW + 60)
    bundle(tmp_path / "then", "python job.py", NOW + 61, NOW + 540)
    assert names(tmp_path) == ["first", "then"]


def test_runs_of_different_commands_at_one_time_are_different_jobs(tmp_path: Path) -> None:
    bundle(tmp_path / "a", "python job.py --lr 0.1", NOW, NOW + 60)
    bundle(tmp_path / "b", "python job.py --lr 0.2", NOW, NOW + 70)
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(("ended", "runs"), [(NOW + 545, 2), (NOW + 9000, 3)])
def test_a_console_is_of_the_run_that_ended_with_it(
    tmp_path: Path, ended: float, runs: int
) -> None:
    bundle(tmp_path / "first", "python job.py", NOW, NOW + 60)
    bundle(tmp_path / "then", "python job.py", NOW + 61, NOW + 540)
    write(tmp_path / "console.log", steps("12"), ended)
    found = names(tmp_path)
    assert (found[:2], len(found)) == (["first", "then"], runs)


def test_a_manifest_of_another_program_tells_nothing(tmp_path: Path) -> None:
    for text in ("[1]", "{", '{"schema": "other"}', '{"schema": "postmortem-run/1"}'):
        write(tmp_path / "a" / "manifest.json", text)
        write(tmp_path / "a" / "out.log", ERROR)
        assert names(tmp_path) == []


@pytest.mark.parametrize("first", ["lattice_1127.log", "failed_first/lattice.log"])
@pytest.mark.parametrize(
    "end", [summary(r0=11, r1=12), "srun: error: n1: tasks 0-1: Exited with exit code 1\n"]
)
@pytest.mark.parametrize(
    ("rank", "after", "apart"),
    [(1, 7200, True), (2, 7200, False), (1, 600, False)],
    ids=["its ranks had ended", "another node's", "soon after"],
)
def test_a_log_without_times_went_on_long_after_its_ranks_had_ended(
    tmp_path: Path, first: str, end: str, rank: int, after: int, apart: bool
) -> None:
    folder = tmp_path / "job"
    second = "lattice_1128.log" if "_" in Path(first).name else "lattice.log"
    write(folder / first, f"rank 0: step 1\n{ERROR}{end}", NOW)
    write(folder / second, f"rank {rank}: step 1\n" * 9, NOW + after)
    code, found = triage(folder, tmp_path / "out.json")
    told = [(row["outcome"], row["again"]) for row in found["runs"]]
    assert told == ([("failed", True), ("unknown", False)] if apart else [])
    assert code == (0 if apart else 1)


@pytest.mark.parametrize(("code", "advice"), [(4, "stop"), (5, "restart")])
def test_tries_that_ended_alike_are_no_reason_for_another(
    tmp_path: Path, code: int, advice: str
) -> None:
    for number, one in enumerate((4, 4, code)):
        ended = summary(r1=10 + number).replace("exitcode  : 1", f"exitcode  : {one}")
        rule = "=" * 60
        log = f"[rank1]: step 1\n[rank0]: step 1\n{rule}\nt.py FAILED\nFailures:\n{ended}{rule}\n"
        write(tmp_path / "job" / f"try{number}" / "console", log, NOW + 600 * number)
    _, found = triage(tmp_path / "job", tmp_path / "out.json")
    assert found["restart"]["advice"] == advice


@pytest.mark.parametrize("clock", ["2025-11-23 {}:00:0{} ", ""], ids=["with times", "without"])
def test_tries_that_were_copied_at_once_keep_their_order(clock: str, tmp_path: Path) -> None:
    for number, end in (("0", ERROR), ("1", "training complete\n")):
        lines = "".join(f"{clock.format(number, n)}step {n}\n" for n in range(4))
        write(tmp_path / "job" / f"attempt_{number}" / "rank0.log", lines + end)
    assert names(tmp_path / "job") == ["attempt_0", "attempt_1"]
    code, document = triage(tmp_path / "job", tmp_path / "out.json")
    assert (code, document["outcome"]) == (0, "healthy")
    write(tmp_path / "job" / "attempt_1" / "rank0.log", "step 0\nstep 1\n" + ERROR)
    assert triage(tmp_path / "job", tmp_path / "out.json")[0] == 1


def test_one_number_in_names_counts_jobs_and_another_one_their_ranks(tmp_path: Path) -> None:
    for job, clock in ((71, "08"), (72, "09")):
        for rank in (0, 1):
            text = steps(clock) + (ERROR if job == 71 else "")
            write(tmp_path / f"seg.{job}.{rank}.log", text, NOW + 3600 * (job - 71) + rank)
    runs = runs_apart(take_inventory([str(tmp_path)]))
    assert [(Path(run.name).name, len(run.paths)) for run in runs] == [("seg.71", 2), ("seg.72", 2)]


@pytest.mark.parametrize(("waited", "runs"), [(20, []), (0, ["n1-0.log", "n2-3.log"])])
def test_a_log_that_went_on_without_times_began_as_the_clock_of_the_other_says(
    tmp_path: Path, waited: int, runs: list[str]
) -> None:
    write(tmp_path / "n2-3.log", "2025-11-23 08:00:00 hello\n" + ERROR, NOW)
    hello = f"2025-11-23 08:00:{21 - waited:02} hello\n"
    write(tmp_path / "n1-0.log", f"{hello}TimeoutError: nobody came\n", NOW + 21)
    assert names(tmp_path) == runs


def test_tries_that_were_packed_one_by_one_are_runs(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / f"try-{number}"
        for rank in (0, 1):
            write(folder / f"r{rank}.log", steps(f"0{number}") + ERROR, NOW + 60 * number)
        subprocess.run(
            ["tar", "-C", tmp_path, "-czf", tmp_path / f"{folder.name}.tgz", folder.name],
            check=True,
        )
        shutil.rmtree(folder)
    _, found = triage(tmp_path, tmp_path / "out.json")
    assert [len(row["files"]) for row in found["runs"]] == [2, 2]


@pytest.mark.parametrize("apart", [86_400.0, 2.0, 0.0])
def test_folders_called_after_days_are_runs_where_logs_begin_anew(
    tmp_path: Path, apart: float
) -> None:
    """Whatever their times say: they may have been copied, or written anew."""
    for rank in (0, 1):
        begin = f"rank {rank} of 2 starts, pid 1{rank}\n"
        write(tmp_path / "old" / "2026-11-20" / f"rank{rank}.log", begin + ERROR, NOW)
        log = tmp_path / "old" / "2026-11-21" / f"rank{rank}.log"
        write(log, begin + "step 1 loss 2\nstep 2 loss 1\ntraining finished\n", NOW + apart)
    assert names(tmp_path) == ["2026-11-20", "2026-11-21"]
    code, found = triage(tmp_path, tmp_path / "out.json")
    assert [(row["again"], row["judged"]) for row in found["runs"]] == [
        (True, False),
        (False, True),
    ]
    assert (code, found["roots"]) == (0, [])
    assert main(["logs", str(tmp_path / "old"), "--json", "-o", str(tmp_path / "logs.json")]) == 0
    told = json.loads((tmp_path / "logs.json").read_text())["problems"]
    assert [Path(row["where"]).name for row in told] == ["old"]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("2026-11-20/rank0.log", "2026-11-21/rank1.log"),
        ("2026-11-20/n0/out.log", "2026-11-20/n1/out.log"),
        ("a/2026-11-20/out.log", "b/2026-11-21/out.log"),
    ],
)
def test_nodes_that_began_on_two_days_are_one_job(tmp_path: Path, first: str, then: str) -> None:
    write(tmp_path / first, "rank 0 of 2 starts\n" + ERROR)
    write(tmp_path / then, "rank 1 of 2 starts\nstep 1 loss 2\n")
    assert names(tmp_path) == []


@pytest.mark.parametrize(("step", "runs"), [(3, []), (1, ["2026-11-20", "2026-11-21"])])
def test_a_log_that_goes_on_over_midnight_is_one_run(
    tmp_path: Path, step: int, runs: list[str]
) -> None:
    clock = "2025-11-23 12:0{}:00 [rank0] step {}/9 loss {}\n".format
    write(tmp_path / "2026-11-20" / "rank0.log", clock(1, 1, 2.0) + clock(2, 2, 1.9))
    write(tmp_path / "2026-11-21" / "rank0.log", clock(3, step, 1.8) + ERROR, NOW + 60)
    assert names(tmp_path) == runs


def test_a_folder_of_old_ones_that_holds_all_sets_nothing_aside(tmp_path: Path) -> None:
    write(tmp_path / "previous" / "run1.log", steps("08") + ERROR, NOW)
    write(tmp_path / "previous" / "run2.log", steps("09"), NOW + 3600)
    assert names(tmp_path) == ["run1.log", "run2.log"]


def test_what_lies_in_the_folder_of_a_run_is_of_that(tmp_path: Path) -> None:
    for day in ("2026-11-20", "2026-11-21"):
        write(tmp_path / day / "rank0.log", "rank 0 of 1 starts\n" + ERROR)
    call = '81 openat(AT_FDCWD, "/data/s.bin", O_RDONLY) = -1 ENOENT (No such file or directory)\n'
    write(tmp_path / "2026-11-20" / "strace.81", call * 9 + "81 +++ exited with 1 +++\n")
    write(tmp_path / "strace.82", call * 9 + "81 +++ exited with 1 +++\n")
    _, found = triage(tmp_path, tmp_path / "out.json")
    belongs = {Path(row["path"]).name: row["belongs"] for row in found["evidence"]}
    assert (belongs["strace.81"], belongs["strace.82"]) == (False, None)


@pytest.mark.parametrize(("end", "advice"), [("training complete\n", "stop"), ("", "restart")])
def test_a_run_that_did_well_leaves_nothing_to_start_again(
    tmp_path: Path, end: str, advice: str
) -> None:
    """Of copies nobody knows which came again, and the failed one counts."""
    rule = "=" * 60
    failed = f"{rule}\nt.py FAILED\nFailures:\n{summary(r1=10)}{rule}\n"
    write(tmp_path / "job" / "slurm-90210.out", steps("08") + failed)
    write(tmp_path / "job" / "slurm-90211.out", steps("09") + end)
    _, found = triage(tmp_path / "job", tmp_path / "out.json")
    assert [row["judged"] for row in found["runs"]] == [True, False]
    assert found["restart"]["advice"] == advice


@pytest.mark.parametrize(
    ("size", "later", "between", "apart"),
    [(2, 20, "/", True), (2, 20, "_", True), (2, 0, "/", False), (4, 20, "/", False)],
    ids=["whole jobs", "in one folder", "at one time", "two nodes"],
)
def test_series_of_logs_that_have_all_ranks_each_are_jobs(
    tmp_path: Path, size: int, later: float, between: str, apart: bool
) -> None:
    """Nodes may count their ranks from 0 each, and then they run at one time."""
    for number, folder in enumerate(("lr1e-3", "lr1e-4")):
        for rank in (0, 1):
            rank += 2 * number if size == 4 else 0
            end = ERROR if not number and not rank else "step 1 loss 2\n"
            log = tmp_path / f"{folder}{between}rank{rank}.log"
            write(log, f"start: rank {rank}/{size}\n{end}", NOW + rank + later * number)
    write(tmp_path / "notes.log", "start both\n", NOW)
    runs = ["lr1e-3", "lr1e-4"] if between == "/" else ["lr1e-3_rank", "lr1e-4_rank"]
    assert sorted(names(tmp_path)) == ([*runs, "notes.log"] if apart else [])
    _, found = triage(tmp_path, tmp_path / "out.json")
    assert found["outcome"] == "failed"


def test_who_waits_without_a_word_for_one_that_failed_at_once_is_of_its_job(tmp_path: Path) -> None:
    """The last time in its log is that of its begin."""
    write(tmp_path / "pod-1.txt", ERROR, NOW - 7)
    write(tmp_path / "pod-0.txt", f"2025-11-23 12:13:12 start: rank 0/2 pid 7\n{ERROR}", NOW)
    assert names(tmp_path) == []


def test_copies_that_were_set_aside_are_read_once(tmp_path: Path) -> None:
    for rank in (0, 1):
        for folder in (tmp_path, tmp_path / "backup"):
            write(folder / f"rank{rank}.log", f"rank {rank} starts\n{ERROR * rank}")
    assert names(tmp_path) == []
    assert main(["logs", str(tmp_path), "--json", "-o", str(tmp_path.parent / "logs.json")]) == 1
    read = json.loads((tmp_path.parent / "logs.json").read_text())["inputs"]
    assert {Path(row["path"]).parent for row in read} == {tmp_path}
    write(tmp_path / "backup" / "rank1.log", "rank 1 starts\nstep 1\n")
    assert names(tmp_path)[:1] == ["backup"]
