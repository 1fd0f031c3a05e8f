"""How programs that nobody knows say that something ended, or that it went wrong."""

from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Outcome, Report

_STEPS = "".join(f"step {n} of 40: loss {2.4 - n / 100:.2f}\n" for n in range(30))


def _report(folder: Path, text: str) -> Report:
    path = folder / "job.log"
    path.write_text(_STEPS + text + "\n")
    return analyse([str(path)], RankLogOptions())


@pytest.mark.parametrize(
    "line",
    [
        "[quokka] unit trainer@3 exited, status=1/FAILURE",
        "2026-01-02 03:04:05 lumen-runner: child 4711 returned exit status 2",
        "borealis: task 7 of array 71 ended with exit code 139 after 00:31:02",
        "heron> process finished (exit code: 3)",
        "Tundra agent: workload has terminated with code=-9",
        "pelican: 1 of 8 replicas exited with status 255",
        "osprey[12]: worker 3 was killed by signal 9 (KILL)",
        "kestrel: step train terminated by SIGTERM",
        "magpie watchdog: child died on signal 11",
        'wren {"event": "exit", "exit_code": 134, "pid": 4711}',
        "finch: rank0 quit with return code 120",
        "ibis | job 71 | EXITED | exit_status=1",
        "Error: container trainer exited unexpectedly with status code 137",
        "plover: command failed with error code 5",
        "stork: the run aborted (return value 2)",
        "dunlin-batch: JOB 71 FAILED in queue gpu",
        "avocet: pipeline train failed: node lost",
        "Workflow nightly failed after 3 attempts",
        "curlew: exit=1 signal=0 state=FAILED",
        "snipe: returned non-zero status",
        "godwit: helper process 31 returned 3.",
        "jobd[9]: job train.sh done rc=2",
        "knot: received signal SIGXCPU, giving up",
        "ruff-run: interrupted by signal 2",
        "siskin: session closed with exit status 1",
        "ExitCode=1:0 JobName=train",
        "trainer-0 Error exitCode: 1 finishedAt: 2026-01-02T03:04:05Z",
        "tern: Task exited abnormally with value 70",
        "serin: training failed: shard 3 is gone",
        "redpoll: script train.sh failed with status 4",
    ],
)
def test_a_bad_end_in_any_words_is_one(tmp_path: Path, line: str) -> None:
    report = _report(tmp_path, line)
    assert (report.outcome, report.failed) == (Outcome.FAILED, True), report.verdict


@pytest.mark.parametrize(
    "line",
    [
        "[quokka] unit trainer@3 exited, status=0/SUCCESS",
        "2026-01-02 03:04:05 lumen-runner: child 4711 returned exit status 0",
        "borealis: task 7 of array 71 ended with exit code 0 after 00:31:02",
        "heron> process finished (exit code: 0)",
        'wren {"event": "exit", "exit_code": 0, "pid": 4711}',
        "jobd[9]: job train.sh done rc=0",
        "job 71 state: COMPLETED",
    ],
)
def test_the_same_words_with_0_are_a_good_end(tmp_path: Path, line: str) -> None:
    report = _report(tmp_path, line)
    assert (report.outcome, report.failed) == (Outcome.HEALTHY, False), report.verdict


@pytest.mark.parametrize(
    "line",
    [
        "GET /status returned code 200",
        "finished 12 of 40 with value 3.75",
        "evaluation completed: status 1.25 loss",
        "registered a handler for signal SIGUSR1",
        "validation error: 0.125",
        "mean squared error: 3.2",
        "errors: 0, warnings: 3",
        "error rate 0.1",
        "INFO trainer: error: none was found",
        'time=03:04:05 level=warning msg="error: peer slow, tried again"',
        '{"level": "info", "msg": "no fatal: all well"}',
        "[I] retry of a failed: 3",
        "0 jobs failed",
        "status: 3 done, 0 failed",
    ],
)
def test_words_of_a_healthy_program_are_none(tmp_path: Path, line: str) -> None:
    report = _report(tmp_path, line)
    assert not report.failed, report.verdict


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-02 03:04:05,678 [main] ERROR o.e.Trainer - shard 3 is gone",
        "26/01/02 03:04:05 ERROR TaskSetManager: shard 3 is gone",
        "E0102 03:04:05.678901 4711 shards.py:31] shard 3 is gone",
        "2026-01-02 03:04:05.678 | CRITICAL | shards:open:31 - shard 3 is gone",
        'ts=2026-01-02T03:04:05Z caller=shards.go:31 level=error msg="shard 3 is gone"',
        '{"time":"2026-01-02T03:04:05Z","severity":"ERROR","message":"shard 3 is gone"}',
        "3:04AM ERR shard 3 is gone",
        "[2026-01-02 03:04:05] [error] shard 3 is gone",
        "Jan 02, 2026 3:04:05 AM SEVERE: shard 3 is gone",
        "\x1b[31m2026-01-02 03:04:05\x1b[0m \x1b[1;31mERROR\x1b[0m shard 3 is gone",
        "2026-01-02T03:04:05Z\tERROR\tshards/open.go:31\tshard 3 is gone",
        "ERRO[0031] shard 3 is gone",
    ],
)
def test_a_level_of_errors_is_never_calm(tmp_path: Path, line: str) -> None:
    report = _report(tmp_path, line)
    assert report.failed, report.verdict


@pytest.mark.parametrize(
    "text",
    [
        "heron: task 7 was cancelled by the user",
        "agent: SIGTERM received, draining\nagent: worker 3 crashed with exit code -15",
        "##[error]The runner has received a shutdown signal.\n##[error]The operation was canceled.",
        "[launch.py:315:kill] Killing subprocess 4711\n[launch.py:324:kill] received SIGINT",
        "Traceback (most recent call last):\nKeyboardInterrupt",
        "magpie: run 71 has been preempted",
        "Received SIGTERM, saving a checkpoint\ncheckpoint 80 saved to lumen/80\nexiting with 0",
    ],
)
def test_who_was_told_to_end_did_not_fail(tmp_path: Path, text: str) -> None:
    report = _report(tmp_path, text)
    assert [one.id for one in report.diagnoses] == ["stopped_from_outside"], report.verdict


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: no room\nagent: SIGTERM received, draining",
        "agent: SIGTERM received, a checkpoint is saved\nstep 31 of 40: loss 2.1",
    ],
)
def test_what_failed_before_or_went_on_was_not_stopped(tmp_path: Path, text: str) -> None:
    report = _report(tmp_path, text)
    assert "stopped_from_outside" not in [one.id for one in report.diagnoses], report.verdict


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SUCCESS!\n", 31),
        ("6 of 6 steps (100%) done\nComplete log: lumen.log\nbye\n", 31),
        ("Saved final model to: out/model.zip\n", 31),
        ("Subject: Job 71: <train> in cluster <lumen> Done\n\nCPU time : 71 sec.\n", 31),
        ("Done.\nfetching the next list\nreading it\n", None),
        ("Multirun completed successfully!\n" + _STEPS, None),
    ],
)
def test_a_program_s_own_end_is_told_with_its_line(
    tmp_path: Path, text: str, line: int | None
) -> None:
    report = _report(tmp_path, text)
    assert not report.failed
    assert (f"line {line or 31} " in report.verdict) == (line is not None)


_TERMINATE = (
    "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no shard\n"
)


@pytest.mark.parametrize(
    ("number", "said", "sure"), [(6, "", "likely"), (6, _TERMINATE, "certain"), (11, "", "certain")]
)
def test_an_abort_without_its_words_is_not_certain(
    tmp_path: Path, number: int, said: str, sure: str
) -> None:
    text = "".join(
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/job/train.py", line 5, in sync\n'
        f"[rank{rank}]: RuntimeError: [pair.cc:537] Connection closed by peer [10.0.0.1]:63137\n"
        for rank in (0, 2)
    )
    summary = (
        f"E1128 06:34:41.485000 300 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        f"(exitcode: -{number}) local_rank: 1 (pid: 321) of binary: /opt/env/bin/python\n"
    )
    assert _report(tmp_path, text + said + summary).diagnoses[0].confidence.value == sure


@pytest.mark.parametrize("said", ["ERROR STOP no pivot in block 7", "ERROR: no pivot in block 7"])
def test_a_rank_with_an_error_above_its_frames_wrote_one(tmp_path: Path, said: str) -> None:
    own = ["iter 1", said, "Error termination. Backtrace:", "#0  0x7f2b1a1c8b20 in ???"]
    text = "".join(f"[1,{rank}]<stdout>:iter 1\n" for rank in range(3))
    text += "".join(f"[1,2]<stderr>:{line}\n" for line in [*own, "#1  0x401a3b in solve_"])
    text += (
        "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
        "the job to be terminated. The first process to do so was:\n\n"
        "  Process name: [[1234,1],2]\n  Exit code:    1\n"
    )
    report: Any = _report(tmp_path, text)
    assert report.body["first_failure"]["ranks"] == [2]
    assert "no pivot in block 7" in report.verdict


@pytest.mark.parametrize(("steps", "stopped"), [(0, True), (2, True), (9, False)])
def test_who_saves_what_it_has_once_it_is_told_to_end_was_stopped(
    tmp_path: Path, steps: int, stopped: bool
) -> None:
    more = "".join(f"step {n} of 40: loss 2.01\n" for n in range(30, 30 + steps))
    told = "Received SIGTERM, saving a checkpoint\n"
    report = _report(tmp_path, f"{told}{more}checkpoint saved to /ckpt/30\nexiting")
    ids = {one.id for one in report.diagnoses}
    assert ("stopped_from_outside" in ids) is stopped, report.verdict


@pytest.mark.parametrize(("behind", "failed"), [("", True), ("step {} loss 1.{}\n", False)])
def test_a_quoted_command_below_an_error_is_no_going_on(
    behind: str, failed: bool, tmp_path: Path
) -> None:
    text = 'ErrorMessage "ValueError: no such shape"\nCommand "/opt/bin/python fit.py -n 7"\n'
    text += "".join(behind.format(n, n) for n in range(1, 5))
    (tmp_path / "fit.log").write_text(text)
    assert analyse([str(tmp_path / "fit.log")], RankLogOptions()).failed is failed


@pytest.mark.parametrize(("state", "failed"), [("EXIT", True), ("DONE", False), ("RUN", False)])
def test_a_table_of_the_jobs_of_lsf(state: str, failed: bool, tmp_path: Path) -> None:
    text = (
        "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME\n"
        f"812     ana     {state:5} gpu        login1      8*node3     fit        Nov 20 10:00\n"
    )
    (tmp_path / "bjobs.txt").write_text(text)
    assert analyse([str(tmp_path / "bjobs.txt")], RankLogOptions()).failed is failed
