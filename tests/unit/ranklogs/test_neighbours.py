"""Of lines beside each other: which of them is told, and which say nothing of an end."""

from pathlib import Path

import pytest

from builders.ranklogs import report_of
from postmortem.report.model import Report

PARTS = "".join(f"{c}{c} is there\n" for c in "abcdefghijklmnop")
LINK = "[n1:4711:0:4711] ib_mlx5_log.c:177  "
FRAMES = " 0  /ucx/libucs.so.0(a+0x2d) [0x7f5a6c0b6bdc]\n 1  /ucx/libucs.so.0(b+0x3) [0x7f5a6c]\n"
TIMED_OUT = "Could not set the queue up: timed out\nerrno: 110\n"
TABLE = """\
[3]:
  time      : 2026-01-02_03:04:05
  host      : node1
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 74)
  error_file: <N/A>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-02_03:04:05
  host      : node1
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 71)
  error_file: <N/A>
"""


def _cited(report: Report) -> list[str]:
    return [one.where for one in report.diagnoses[0].evidence]


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        (PARTS + TIMED_OUT * 5, True),
        (TIMED_OUT * 5, False),  # it did nothing else
        (PARTS + TIMED_OUT * 5 + "the mark is reached\n", False),
        (PARTS + "".join(f"shard {n}: could not be read\n" for n in range(9)), False),
        (PARTS + "".join(f"Could not read:\n  /{c * 3}.jpg\n" for c in "abcdefgh"), False),
        ("W lum/ops.cc:71] Error when closing: Cancelled: Operation was cancelled\nx\n", False),
        ("E lum/ops.cc:71] Error when closing: Cancelled: Operation was cancelled\nx\n", True),
        ("##[error]The operation was canceled.\n", True),
    ],
)
def test_what_comes_again_or_is_of_one_call(tmp_path: Path, text: str, failed: bool) -> None:
    assert report_of(tmp_path, text).failed == failed


@pytest.mark.parametrize("head", ["==== backtrace (tid:     71) ====\n", ""])
def test_the_error_above_the_heading_of_a_stack_is_told(tmp_path: Path, head: str) -> None:
    text = f"{LINK}QP 0x9 wqe[7]\n{LINK}Retry count exceeded\n{LINK}QP 0x8 wqe[6]\n{head}{FRAMES}"
    assert _cited(report_of(tmp_path, text))[0] == "job.log:2"  # it has a word for what went wrong


@pytest.mark.parametrize(
    ("notice", "signal"),
    [
        ("Aborted (core dumped)", "SIGABRT"),
        ("已放弃 (核心已转储)", "SIGABRT"),
        ("run.sh: 行 3:  71 段错误               (核心已转储) python t.py", "SIGSEGV"),
        ("Bus-Zugriffsfehler", "SIGBUS"),
        ("已杀死", "SIGKILL"),
    ],
)
def test_a_program_that_aborts_says_why_and_one_that_is_killed_cannot(
    tmp_path: Path, notice: str, signal: str
) -> None:
    text = f"lum.so was not found\n/lum/a.cpp:92: made for no such device\n{notice}\n"
    report = report_of(tmp_path, text)
    assert [end["signal"] for end in report.body["exits"]] == [signal]
    cited = ["job.log:3", "job.log:2", "job.log:1"]
    assert _cited(report) == (cited if signal == "SIGABRT" else cited[:1])
    assert (": made for no" in report.verdict) == (signal == "SIGABRT")


def test_lines_of_a_launchers_table_are_nobodys_last_words(tmp_path: Path) -> None:
    assert _cited(report_of(tmp_path, TABLE)) == ["job.log:13"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # broken by a console: no word of the next line had room
        (
            "LumError: the queue could not listen on any address of this host, of\n"
            "which there are two. It tried port 2971, which is taken by another one\n"
            "already, and gave it up.\n",
            "port 2971, which is taken by another one already, and gave",
        ),
        # announced
        ("lum: could not be read:\n  shard 7 of\n\n  nine\nasked twice\n", "read: shard 7 of"),
        # frames below the message, the innermost first
        (
            "Lum failed to load for Linear:\n\tanother shape\n"
            '  File "/a.py", line 3, in f\n    raise LumError(\n'
            '  File "/a.py", line 9, in g\n    f()\n',
            "Linear: another shape",
        ),
    ],
)
def test_a_message_that_goes_on_in_the_next_lines_is_told_whole(
    tmp_path: Path, text: str, told: str
) -> None:
    assert told in report_of(tmp_path, text).verdict


@pytest.mark.parametrize(
    "text",
    [
        "LumError: the queue is not there\nwhich of the two addresses it has nobody told it yet\n",
        "lum: could not be read:\nwhich has happened before\n",
        "lum: could not be read at:\n  at org.lum.Loader.open(Loader.java:31)\n",
    ],
)
def test_what_had_room_is_not_announced_or_is_a_frame_is_no_part_of_a_message(
    tmp_path: Path, text: str
) -> None:
    below = text.splitlines()[1].split()
    assert " ".join(below) not in report_of(tmp_path, text).verdict
