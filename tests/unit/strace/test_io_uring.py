"""io_uring: what fails in a ring is in no log, so an answer says so; but only of a ring in use."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from builders.recordings import read, recording
from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.facts.call_query import parse
from postmortem.render.json import render


def setup(flags: str = "0", result: str = "3") -> str:
    """Return the line of a ring that a program set up."""
    return f"7 io_uring_setup(8, {{flags={flags}, sq_thread_cpu=0, sq_entries=8}}) = {result}\n"


def enter(result: str = "1") -> str:
    return f"7 io_uring_enter(3, 1, 1, IORING_ENTER_GETEVENTS, NULL, 8) = {result}\n"


# What libuv does at the start of a loop, and where it has gathered calls of epoll_ctl().
EPOLL = "7 epoll_create1(EPOLL_CLOEXEC) = 3\n"
LIBUV = f"{EPOLL}7 io_uring_setup(256, {{flags=0x10000, sq_thread_cpu=0, sq_entries=256}}) = 4\n"


def gathered(asked: int, awaited: int, fd: int = 4) -> str:
    call = f"io_uring_enter({fd}, {asked}, {awaited}, IORING_ENTER_GETEVENTS, NULL, 0)"
    return f"7 {call} = {asked}\n"


HALF = "7 io_uring_enter(3, 1, 1, IORING_ENTER_GETEVENTS, NULL, 8 <unfinished ...>\n"
OTHER = "9 brk(NULL) = 0x5\n"
SETUP_HALVES = (
    f"7 io_uring_setup(8,  <unfinished ...>\n{OTHER}"
    "7 <... io_uring_setup resumed>{flags=IORING_SETUP_SQPOLL, sq_entries=8}) = 3\n"
)

IN_USE = {
    "entered": setup() + enter(),
    "set up before the log began": enter(),
    "polled by the kernel": setup("IORING_SETUP_SQPOLL"),
    "polled, raw": setup("0x2"),
    "polled, among other flags": setup("IORING_SETUP_IOPOLL|IORING_SETUP_SQPOLL"),
    "polled, set up in halves": SETUP_HALVES,
    "entered in halves": setup() + HALF + OTHER + "7 <... io_uring_enter resumed>) = 1\n",
    "killed within": setup() + HALF + OTHER + "7 <... io_uring_enter resumed>) = ?\n",
    "still within where the log ends": setup() + HALF + OTHER,
    "its wait was interrupted": setup() + enter("-1 EINTR (Interrupted system call)"),
    "libuv's for files": LIBUV.replace("flags=0x10000", "flags=IORING_SETUP_SQPOLL"),
    "like libuv's, entered in another way": LIBUV + gathered(3, 1),
    "without an epoll": LIBUV.removeprefix(EPOLL) + gathered(3, 3),
    "another one beside libuv's": LIBUV + gathered(3, 3) + gathered(3, 3, 5),
    "its wait took too long": setup() + enter("-1 ETIME (Timer expired)"),
}
NOT_IN_USE = {
    "set up alone": setup(),
    "set up alone, raw": setup("0x4"),
    "could not be set up": setup("IORING_SETUP_SQPOLL", "-1 EPERM (Operation not permitted)"),
    "asked whether there is such a thing": "7 io_uring_setup(0, NULL) = -1 EFAULT (Bad address)\n",
    "may not be entered": setup() + enter("-1 EBADFD (File descriptor in bad state)"),
    "libuv's for epoll_ctl": LIBUV + gathered(3, 3) + gathered(1, 1),
    "libuv's for epoll_ctl, in halves": LIBUV
    + gathered(3, 3).replace(") = 3", " <unfinished ...>")
    + OTHER
    + "7 <... io_uring_enter resumed>) = 3\n",
    "within libuv's for epoll_ctl": LIBUV + gathered(3, 3).replace(") = 3", " <unfinished ...>"),
    "nothing of it": OTHER,
}


@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize(
    ("log", "used"),
    [(log, True) for log in IN_USE.values()] + [(log, False) for log in NOT_IN_USE.values()],
    ids=[*IN_USE, *NOT_IN_USE],
)
def test_a_ring_hides_failures_where_it_is_in_use(log: str, used: bool, statistics: bool) -> None:
    got = read(log, errors=["ENOSPC"], statistics=statistics)
    assert got["counts"]["unparsed"] == 0
    assert got["io_uring"] == used


def report(log: str, path: Path, *queries: str) -> dict[str, Any]:
    path.write_text(log)
    options = StraceOptions(queries=tuple(parse(query) for query in queries))
    out = io.StringIO()
    render(analyse([str(path)], options), out)
    made: dict[str, Any] = json.loads(out.getvalue())
    return made


@pytest.mark.parametrize("used", [True, False])
def test_an_answer_without_a_hit_says_the_same(used: bool, tmp_path: Path) -> None:
    opened = '7 openat(AT_FDCWD, "/m/a", O_WRONLY) = 6\n'
    log = opened + setup() + (enter() if used else "")
    made = report(log, tmp_path / "strace.txt", "ENOSPC")
    assert made["recordings"][0]["io_uring"] == used


@pytest.mark.parametrize(
    ("log", "code", "told"),
    [
        (setup() + enter(), 1, True),
        (setup() + enter(), 0, False),
        (setup("IORING_SETUP_SQPOLL"), 1, True),
        (setup(), 1, False),
    ],
    ids=["used", "all went well", "polled by the kernel", "set up alone"],
)
def test_it_is_told_of_where_it_may_matter(log: str, code: int, told: bool, tmp_path: Path) -> None:
    made = report(f"{log}7 +++ exited with {code} +++\n", tmp_path / "strace.txt")
    assert any("io_uring" in problem["what"] for problem in made["problems"]) == told


@pytest.mark.parametrize("statistics", [False, True])
def test_the_rings_of_a_real_torchrun_hide_nothing(statistics: bool) -> None:
    got = recording("torchrun_tTy.strace.zst", errors=["ENOSPC"], statistics=statistics)
    assert not got["io_uring"]
    assert got["match_count"] == 0
