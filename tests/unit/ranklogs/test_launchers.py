"""Launchers that put prefixes before writes, not lines, and what they say of ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers.ranklogs.launchers import hosts_of


def body_of(tmp_path: Path, text: str, name: str = "job.out") -> Any:
    (tmp_path / name).write_text(text)
    return analyse([str(tmp_path)], RankLogOptions()).body


def words_of(tmp_path: Path, text: str) -> dict[int, list[str]]:
    return {row["rank"]: row["last_words"] for row in body_of(tmp_path, text)["ranks"]}


def test_tags_of_open_mpi_inside_of_lines(tmp_path: Path) -> None:
    text = (
        "[1,0]<stdout>:step 0[1,0]<stdout>:\n"
        "[1,1]<stdout>:step 0\n"
        "[1,0]<stdout>:step 1[1,1]<stdout>:step 1\n"
        "[1,0]<stdout>:\n"
    )
    assert words_of(tmp_path, text) == {0: ["step 0", "step 1"], 1: ["step 0", "step 1"]}


def test_times_of_open_mpi_before_each_tag(tmp_path: Path) -> None:
    when = "Sat Nov 21 17:16:26 2026"
    text = f"{when}[1,0]<stdout>:step 0{when}[1,0]<stdout>:\n{when}[1,1]<stderr>:step 0\n"
    assert words_of(tmp_path, text) == {0: ["step 0"], 1: ["step 0"]}


def test_hydra_before_each_write(tmp_path: Path) -> None:
    lines = [f"[{rank}] step {i}[{rank}] " for i in range(5) for rank in range(3)]
    lines.append("[2] OSError[2] : [2] [Errno 28] No space left[2] ")
    assert words_of(tmp_path, "\n".join(lines) + "\n")[2][-1] == "OSError: [Errno 28] No space left"


def test_brackets_of_a_program_stay(tmp_path: Path) -> None:
    lines = [f"[{rank}] x[{rank}] is {i}" for i in range(5) for rank in range(3)]
    assert words_of(tmp_path, "\n".join(lines) + "\n")[2][-1] == "x[2] is 4"


@pytest.mark.parametrize("name", ["[[507,1],1]", "[prterun-vm-41@1,1]"])
@pytest.mark.parametrize(("code", "how"), [(7, (7, None)), (139, (None, "SIGSEGV"))])
def test_exit_codes_of_open_mpi(
    name: str, code: int, how: tuple[object, object], tmp_path: Path
) -> None:
    text = "".join(f"[1,{r}]<stdout>:step {i}\n" for i in range(4) for r in range(2))
    text += "mpirun detected that one or more processes exited with non-zero status\n\n"
    text += f"  Process name: {name}\n  Exit code:    {code}\n"
    body = body_of(tmp_path, text)
    assert [(e["rank"], e["code"], e["signal"]) for e in body["exits"]] == [(1, *how)]
    assert body["first_failure"]["ranks"] == [1]


@pytest.mark.parametrize(
    ("said", "how"),
    [
        ("pdsh@login: node2: ssh exited with exit code 3", (3, None)),
        ("pdsh@login: node2: env killed by signal 11", (None, "SIGSEGV")),
        ("clush: node2: exited with exit code 3", (3, None)),
        ("clush: node[2-2] (1): exited with exit code 137", (None, "SIGKILL")),
    ],
)
def test_hosts_of_pdsh_and_clush(said: str, how: tuple[object, object], tmp_path: Path) -> None:
    text = "".join(f"node{n}: step {i}\n" for i in range(6) for n in (1, 2, 3))
    body = body_of(tmp_path, text + said + "\n")
    assert [(e["host"], e["code"], e["signal"]) for e in body["exits"]] == [("node2", *how)]
    assert body["first_failure"]["label"] == "node2"


def test_an_agent_that_pdsh_started_is_no_rank(tmp_path: Path) -> None:
    rows = [f"node{n}: [rank{n}]: step {i}" for i in range(6) for n in (0, 1)]
    rows += [
        "node1: [rank1]: Traceback (most recent call last):",
        'node1: [rank1]:   File "/job/train.py", line 3, in step',
        "node1: [rank1]: ValueError: bad",
        "pdsh@login: node1: ssh exited with exit code 1",
        "pdsh@login: node0: ssh exited with exit code 1",
    ]
    body = body_of(tmp_path, "\n".join(rows) + "\n")
    assert body["first_failure"]["ranks"] == [1]


def test_an_end_without_a_rank_is_undecided(tmp_path: Path) -> None:
    text = "".join(f"[{r}] step {i}\n" for i in range(6) for r in range(3))
    text += "=   PID 28001 RUNNING AT vm\n=   EXIT CODE: 9\n"
    text += "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n"
    (tmp_path / "job.out").write_text(text)
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.failed
    assert [one.id for one in report.diagnoses] == ["unnamed_process_ended"]
    exits: Any = report.body["exits"]
    assert [(one["pid"], one["signal"]) for one in exits] == [(28001, "SIGSEGV")]


@pytest.mark.parametrize(
    ("nodes", "hosts"),
    [
        ("n1", ["n1"]),
        ("gpu-a[01-03,7],login1", ["gpu-a01", "gpu-a02", "gpu-a03", "gpu-a7", "login1"]),
        ("r[1-2]-ib", ["r1-ib", "r2-ib"]),
        ("r[1-2]n[7,9]", ["r1n7", "r1n9", "r2n7", "r2n9"]),
        ("n[", ["n["]),
    ],
)
def test_sets_of_hosts(nodes: str, hosts: list[str]) -> None:
    assert hosts_of(nodes) == hosts


def test_a_set_of_hosts_is_bounded() -> None:
    assert len(hosts_of("n[0-99999999]")) <= 4096


@pytest.mark.parametrize(
    ("locals_", "host", "first"),
    [
        ([10, 11, 12], "h1", 0),  # --role h1: three ranks
        ([0, 1, 2], "h", 0),
        (list(range(12)), "h", 0),  # twelve ranks of a role without digits
        ([3], "h", 3),
    ],
)
def test_digits_of_torchruns_role(
    locals_: list[int], host: str, first: int, tmp_path: Path
) -> None:
    text = "".join(f"[h{n}]:step {i}\n" for i in range(3) for n in locals_)
    rows = body_of(tmp_path, text)["ranks"]
    found = [(row["host"], row["local_rank"]) for row in rows if not row["shared"]]
    assert found[0] == (host, first)


def test_last_words_of_a_quiet_rank_stay_while_another_writes_megabytes(tmp_path: Path) -> None:
    begin = "".join(f"[rank{rank}]: begin of {rank}\n" for rank in range(3))
    steps = "".join(f"[rank0]: step {n} {'x' * 400}\n" for n in range(8000))
    words = words_of(tmp_path, begin + steps + "[rank1]: end of 1\n")
    assert [line.split(" x")[0] for line in words.pop(0)] == ["step 7997", "step 7998", "step 7999"]
    assert words == {1: ["begin of 1", "end of 1"], 2: ["begin of 2"]}


_DIED = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error."
    " Worker IP address: 10.0.0.3 Worker PID: 72 Worker exit type: SYSTEM_ERROR\n"
)


@pytest.mark.parametrize(("left", "ends"), [("3", 0), ("no", 1)])
def test_a_worker_whose_task_ray_tries_again_is_no_end(
    tmp_path: Path, left: str, ends: int
) -> None:
    will = "won't" if ends else "will"
    again = f"(raylet) Task part failed. There are {left} retries remaining, so the task {will} be"
    assert len(body_of(tmp_path, f"part 3\n{_DIED}{again} retried\n")["exits"]) == ends


def test_the_name_of_a_worker_alone_says_nothing_of_its_end(tmp_path: Path) -> None:
    cited = {}
    for said in ("(Lum pid=72)", "no link is there"):
        (tmp_path / "job.out").write_text(f"(Lum pid=71) part 3\n{said}\n{_DIED}")
        (one,) = analyse([str(tmp_path / "job.out")], RankLogOptions()).diagnoses
        cited[said] = [row.where for row in one.evidence]
    assert cited == {"(Lum pid=72)": ["job.out:3"], "no link is there": ["job.out:3", "job.out:2"]}


@pytest.mark.parametrize(
    ("words", "signal"),
    [
        ("Bad system call         ", "SIGSYS"),
        ("File size limit exceeded", "SIGXFSZ"),
        ("User defined signal 2   ", "SIGUSR2"),
    ],
)
def test_each_signal_that_a_shell_tells_of(tmp_path: Path, words: str, signal: str) -> None:
    text = f"iter 3\nrun.sh: line 5: 4711 {words}./lumen\n      4712 Done | tee out.log\n"
    (one,) = body_of(tmp_path, text)["exits"]
    assert (one["pid"], one["signal"]) == (4711, signal)


SLURMS_WORDS = (
    "srun: error: gpu01: task 0: Exited with exit code 1\n"
    "srun: Terminating StepId=551.1\n"
    "slurmstepd: error: *** STEP 551.1 ON gpu01 CANCELLED AT 2026-11-20T03:11:00 ***\n"
    "srun: error: gpu02: task 1: Terminated\n"
)


@pytest.mark.parametrize(("host", "ranks"), [("gpu02", [1]), ("gpu04", []), ("gpu09", [])])
def test_tasks_of_several_hosts_are_of_none_that_another_task_is_of(
    tmp_path: Path, host: str, ranks: list[int]
) -> None:
    (tmp_path / "dmesg.txt").write_text(
        f"Nov 20 03:10:59 {host} kernel: EDAC MC3: 1 UE memory read error on DIMM#0\n"
    )
    slurm = (
        "srun: error: gpu02: task 1: Bus error\nsrun: error: gpu[01,03-04]: tasks 0,2: Terminated\n"
    )
    body = body_of(tmp_path, f"0: step\n1: step\n2: step\n{slurm}")
    assert [end["rank"] for end in body["exits"]] == [1, 0, 2]
    assert [row["ranks"] for row in body["kernel_events"]] == [ranks]


def test_an_exception_without_its_traceback_is_the_failure_of_its_rank(tmp_path: Path) -> None:
    """Slurm's own lines are as many as those of the tasks."""
    text = "0: saving\n1: saving\n0: OSError: [Errno 122] Disk quota exceeded: '/home/u/a.pt'\n"
    body = body_of(tmp_path, text + SLURMS_WORDS)
    first = body["first_failure"]
    assert (first["ranks"], first["line"], first["confidence"]) == ([0], 3, "certain")
    assert first["what"].startswith("OSError: [Errno 122]")


def test_a_rank_whose_last_line_is_an_error_is_not_called_silent(tmp_path: Path) -> None:
    text = "".join(f"{rank}: loss {i}.5\n" for i in range(4) for rank in range(2))
    text += "0: ERROR: could not allocate 81920 bytes for the exchange buffer\n"
    (tmp_path / "job.out").write_text(text + SLURMS_WORDS)
    report = analyse([str(tmp_path)], RankLogOptions())
    best = report.diagnoses[0]
    assert (best.id, best.confidence.value) == ("rank_exited_silently", "likely")
    assert best.evidence[0].where == "job.out:9"
    assert report.body["first_failure"]["ranks"] == [0]


def test_processes_that_a_launcher_kills_are_those_that_raised(tmp_path: Path) -> None:
    raised = "".join(
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/job/train.py", line 6, in <module>\n[rank{rank}]: KeyError: 1\n'
        for rank in range(2)
    )
    launch = "[2026-01-02 03:04:05,678] [INFO] [launch.py:{}] "
    kills = "".join(
        f"{launch.format('253:sigkill_handler')}Killing subprocess {pid}\n" for pid in (7, 8)
    )
    (tmp_path / "job.out").write_text(
        f"{launch.format('170:main')}dist_world_size=2\n{raised}{kills}"
    )
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.diagnoses[0].id == "every_rank_raised"
    assert report.body["world_size"] == 2
    assert "4" not in report.diagnoses[0].title


@pytest.mark.parametrize(
    ("line", "launcher", "rank", "code", "signal"),
    [
        ("Process 1 exit with status code 139.", "horovodrun", 1, None, "SIGSEGV"),
        ("Process 1 exit with status code 0.", None, None, None, None),
        ("node3: rank 3 died from signal 15", "mpiexec", 3, None, "SIGTERM"),
        ("node3: rank 3 exited with code 134", "mpiexec", 3, None, "SIGABRT"),
        ("node3: rank 3 exited with code 0", None, None, None, None),
        (
            "[rank: 2] Child process with PID 7 terminated with code -9.",
            "lightning",
            2,
            None,
            "SIGKILL",
        ),
        ("zsh: bus error  python train.py", "shell", None, None, "SIGBUS"),
        ("812.batch|batch|FAILED|1:0|1948244K|node1|", "Slurm", None, 1, None),
        ("812.batch|batch|FAILED|0:9|1948244K|node1|", "Slurm", None, None, "SIGKILL"),
        ("812.0 python OUT_OF_ME+ 0:125 515876540K node1", "Slurm", None, None, "SIGKILL"),
    ],
)
def test_how_a_line_says_that_a_process_ended(
    tmp_path: Path,
    line: str,
    launcher: str | None,
    rank: int | None,
    code: int | None,
    signal: str | None,
) -> None:
    ends = body_of(tmp_path, f"step 1\n{line}\n")["exits"]
    told = [(one["launcher"], one["rank"], one["code"], one["signal"]) for one in ends]
    assert told == ([(launcher, rank, code, signal)] if launcher else [])


ACCOUNT = """JobID           JobName      State ExitCode   MaxRSS    Elapsed
------------ ---------- ---------- -------- -------- ----------
551               train OUT_OF_ME+    0:125              03:12:44
551.batch         batch OUT_OF_ME+    0:125 5033160K   03:12:44
551.0            python OUT_OF_ME+    0:125 4980000K   03:10:02
"""
EVICTED = """Name:             trainer-worker-3
Status:           Failed
Reason:           Evicted
Message:          The node was low on resource: ephemeral-storage.
"""


@pytest.mark.parametrize(("text", "line"), [(ACCOUNT, 3), (EVICTED, 4)])
def test_an_end_for_a_limit_is_told_where_no_ranks_are(
    tmp_path: Path, text: str, line: int
) -> None:
    (tmp_path / "end.txt").write_text(text)
    report = analyse([str(tmp_path)], RankLogOptions())
    best = report.diagnoses[0]
    assert (best.id, best.role.value, best.confidence.value) == ("process_ended", "root", "likely")
    assert best.evidence[0].where == f"end.txt:{line}"


_WORK = "".join(f"epoch {n} of 30: loss {3 - n / 12:.2f}\n" for n in range(30))
_RESTARTED = "".join(
    f"2026-01-02 03:0{n}:00,1 INFO spawned: 'train' with pid 471{n}\n"
    f"2026-01-02 03:0{n}:07,9 WARN exited: train (exit status 3; not expected)\n"
    for n in range(4)
)
_GET = (
    "(Controller pid=71) Traceback (most recent call last):\n"
    '(Controller pid=71)   File "ctl.py", line 7, in ask\n'
    "(Controller pid=71)     ray.get(answer)\n"
    "(Controller pid=71) GetTimeoutError: no answer\n"
)


@pytest.mark.parametrize(
    ("text", "rules", "outcome"),
    [
        (
            _RESTARTED + "2026-01-02 03:09:00,1 WARN received SIGTERM, exiting\n",
            "process_ended",
            "failed",
        ),
        (
            "ERROR Reporting training FAILURE\nExitCode -9\nErrorMessage\n",
            "process_ended",
            "failed",
        ),
        (
            "srun: Job allocation 71 has been revoked\n" + _WORK + "Training finished.\n",
            "",
            "healthy",
        ),
        (_WORK + "srun: Job allocation 71 has been revoked\n", "stopped_from_outside", "failed"),
        (
            f"(Worker pid=72) ready\n{_GET}(Controller pid=71) asks again\n{_GET}"
            "*** SIGTERM received at time=1767323045 on cpu 0 ***\n",
            "stopped_from_outside",
            "failed",
        ),
        (f"(Worker pid=72) ready\n{_GET}", "rank_raised", "failed"),
    ],
)
def test_who_watched_is_held_against_what_else_is_told(
    tmp_path: Path, text: str, rules: str, outcome: str
) -> None:
    (tmp_path / "job.log").write_text(text)
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.outcome.name.lower() == outcome, report.outcome
    assert [one.id for one in report.diagnoses][:1] == ([rules] if rules else [])


@pytest.mark.parametrize(("told", "first"), [((70,), [1]), ((), None), ((70, 71), None)])
def test_whom_torchrun_does_not_tell_to_end_somebody_else_did(
    tmp_path: Path, told: tuple[int, ...], first: list[int] | None
) -> None:
    api = "W1128 09:00:00.000000 60 torch/distributed/elastic/multiprocessing/api.py"
    text = "".join(f"step {i} loss 0.{i}\n" for i in range(5))
    text += "".join(f"{api}:1028] Sending process {pid} closing signal SIGTERM\n" for pid in told)
    text += "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 40
    text += "\ntrain.py FAILED\nFailures:\n"
    for rank in (0, 1):
        text += (
            f"[{rank}]:\n  time      : 2026-11-28_09:00:00\n  host      : n1\n"
            f"  rank      : {rank} (local_rank: {rank})\n"
            f"  exitcode  : -15 (pid: {70 + rank})  (SIGTERM)\n"
        )
    found = body_of(tmp_path, text)["first_failure"]
    assert (found and found["ranks"]) == first


_POD = """apiVersion: v1
kind: Pod
metadata:
  labels:
    name: of-a-label
  name: trainer-1
status:
  containerStatuses:
  - lastState:
      terminated:
        exitCode: 1
        reason: Error
    name: main
    state:
      terminated:
        exitCode: 0
        reason: Completed
"""
_ENDED_BY_NODE = "  message: The node shuts down.\n  phase: Failed\n  reason: Terminated\n"


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize(
    ("reason", "code", "below", "told"),
    [
        ("OOMKilled", 137, "", ("SIGKILL", None, True)),
        ("Error", 3, "", (None, 3, False)),
        ("Completed", 0, "", None),
        ("Error", 137, _ENDED_BY_NODE, (None, None, False)),
    ],
    ids=["memory", "code", "well", "its node"],
)
def test_how_a_pod_ended_as_kubectl_prints_it(
    tmp_path: Path,
    form: str,
    reason: str,
    code: int,
    below: str,
    told: tuple[str | None, int | None, bool] | None,
) -> None:
    text = _POD.replace("exitCode: 0", f"exitCode: {code}").replace("Completed", reason) + below
    if form == "json":
        ended = [
            {"terminated": {"exitCode": c, "reason": r}} for c, r in ((1, "Error"), (code, reason))
        ]
        names = ("lastState", "state")
        status = {"containerStatuses": [{"name": "main", **dict(zip(names, ended, strict=True))}]}
        rows = (line.strip().partition(": ") for line in below.splitlines())
        status |= {name: value for name, _, value in rows}
        pod = {"kind": "Pod", "metadata": {"name": "trainer-1"}, "status": status}
        text = json.dumps({"items": [pod], "kind": "List"}, indent=4)
    (tmp_path / f"pods.{form}").write_text(text)
    ends = body_of(tmp_path, "step 1\nstep 2\n", "trainer-0.log")["exits"]
    assert [(e["signal"], e["code"], e["memory"]) for e in ends] == ([told] if told else [])
    assert [e["host"] for e in ends] == (["trainer-1"] if told else [])


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize(("kind", "told"), [("Pod", ["trainer-1"]), ("Node", [])])
def test_an_event_tells_of_a_pod_as_kubectl_prints_it(
    tmp_path: Path, form: str, kind: str, told: list[str]
) -> None:
    of = {"kind": kind, "name": "trainer-1"}
    event = {"involvedObject": of, "kind": "Event", "message": "low on disk", "reason": "Evicted"}
    text = json.dumps({"items": [event], "kind": "List"}, indent=4)
    if form == "yaml":
        rows = (f"  {name}: {value}\n" for name, value in [*event.items()][1:])
        names = f"    kind: {kind}\n    name: trainer-1\n  metadata:\n    name: trainer-1.17ab\n"
        text = f"items:\n- involvedObject:\n{names}{''.join(rows)}kind: List\n"
    (tmp_path / f"events.{form}").write_text(text)
    ends = body_of(tmp_path, "step 1\nstep 2\n", "trainer-0.log")["exits"]
    assert [row["host"] for row in ends] == told


@pytest.mark.parametrize(("local", "decided"), [(0, "silent exit"), (7, "undecided")])
def test_the_last_process_that_deepspeed_started_is_the_only_one_if_it_is_the_first(
    tmp_path: Path, local: int, decided: str
) -> None:
    command = f"['python', 'fit.py', '--local_rank={local}', '--x', '2'] exits with return code = 3"
    text = f"step 3\n[2026-01-02 03:04:05,678] [ERROR] [launch.py:434:sigkill_handler] {command}\n"
    assert body_of(tmp_path, text)["decided_by"] == decided


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("rank 1 (pid 41) exited with code 139", (1, "killed by SIGSEGV")),
        ("rank 1 exited with code 0", None),
        ("rank 1 exited with code 139 in the test of yesterday", None),
    ],
)
def test_a_script_that_starts_all_ranks_says_who_crashed(
    tmp_path: Path, words: str, first: tuple[int, str] | None
) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.log").write_text("step 1 loss 0.5\n")
    found = body_of(tmp_path, f"{words}\n", "launch.log")["first_failure"]
    assert (found and (found["rank"], found["what"])) == first
