"""How jobs of many kinds end: clients, cancelled tasks, signals, threads, tools and shells."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Outcome, Report

TORCHRUN = (
    "W0102 03:04:05.678000 9 torch/distributed/elastic/multiprocessing/api.py:1028] "
    "Sending process 11 closing signal SIGTERM\n"
    "E0102 03:04:05.900000 9 torch/distributed/elastic/multiprocessing/api.py:1002] "
    "failed (exitcode: {code}) local_rank: {local} (pid: 12) of binary: /usr/bin/python\n"
)
LOST = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "fit.py", line 5, in <module>\n[rank0]:     dist.all_reduce(t)\n'
    "[rank0]: RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:59567\n"
)


def _report(folder: Path, text: str) -> Report:
    (folder / "job.log").write_text(text)
    return analyse([str(folder / "job.log")], RankLogOptions())


@pytest.mark.parametrize(
    ("raised", "frame"),
    [
        ("redis.exceptions.ConnectionError: Error 111 connecting to q:6379.", "redis/client.py"),
        ("pymongo.errors.AutoReconnect: connection closed", "pymongo/pool.py"),
    ],
)
def test_a_service_that_refuses_is_no_peer(tmp_path: Path, raised: str, frame: str) -> None:
    text = (
        f'Traceback (most recent call last):\n  File "/lib/{frame}", line 7, in _connect\n'
        "    sock.connect(address)\nConnectionRefusedError: [Errno 111] Connection refused\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "work.py", line 2, in <module>\n'
        f"    take()\n{raised}\n"
    )
    report = _report(tmp_path, text)
    assert report.outcome is Outcome.FAILED
    assert raised in report.diagnoses[0].title


def test_a_database_that_refuses_is_no_peer(tmp_path: Path) -> None:
    line = 'psql: error: connection to server at "db", port 5432 failed: Connection refused'
    report = _report(tmp_path, f"load 3 tables\n{line}\n")
    assert report.diagnoses[0].title == line


@pytest.mark.parametrize(
    ("then", "decided"), [("TimeoutError", "own exception"), ("KeyboardInterrupt", "stopped")]
)
def test_what_was_raised_for_a_cancelled_task_says_why(
    tmp_path: Path, then: str, decided: str
) -> None:
    text = (
        'Traceback (most recent call last):\n  File "play.py", line 7, in step\n    await reply()\n'
        "asyncio.exceptions.CancelledError\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "play.py", line 9, in <module>\n'
        f"    asyncio.run(main())\n{then}\n"
    )
    assert _report(tmp_path, f"round 1\n{text}").body["decided_by"] == decided


@pytest.mark.parametrize(
    ("code", "signal", "core"),
    [(-12, "SIGUSR2", False), (-24, "SIGXCPU", False), (-11, "SIGSEGV", True)],
)
def test_a_signal_that_nobody_handles_ends_a_rank(
    tmp_path: Path, code: int, signal: str, core: bool
) -> None:
    best = _report(tmp_path, LOST + TORCHRUN.format(code=code, local=1)).diagnoses[0]
    assert f"rank 1 was killed by {signal}" in best.title
    assert ("postmortem core" in " ".join(best.next_steps)) is core


def test_a_thread_of_nobody_died_in_the_rank_that_is_missed(tmp_path: Path) -> None:
    thread = (
        'Exception in thread feed:\nTraceback (most recent call last):\n  File "fit.py", line 3,'
        " in feed\n    q.put(read())\nValueError: page 7 is empty\n"
    )
    table = (
        "Root Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n"
        "  exitcode  : 1 (pid: 12)\n"
        "[1]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : -15 (pid: 11)\n"
    )
    report = _report(tmp_path, thread + LOST + TORCHRUN.format(code=1, local=0) + table)
    assert report.body["decided_by"] == "thread"
    assert report.body["first_failure"]["ranks"] == [1]
