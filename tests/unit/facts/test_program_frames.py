"""Whose code a stack is in: the program's, before the libraries that it waits in."""

from postmortem.diagnose.hang.live_waits import place_words
from postmortem.facts.threads import Frame, Thread, program_frames, tells_run

LIVE = (
    Frame("clock_nanosleep", module="/usr/lib/libc.so.6", file="clock_nanosleep.c", line=48),
    Frame("PMPI_Allreduce", module="/opt/mpi/libmpi.so.40"),
    Frame("load_data", module="/job/solver", file="/job/hang.c", line=3),
    Frame("train", module="/job/solver", file="/job/hang.c", line=4),
)
GDB = (
    Frame("__GI___clock_nanosleep", file="../sysdeps/unix/sysv/linux/clock_nanosleep.c", line=48),
    Frame("__futex_wait", file="./nptl/futex-internal.c", line=57),
    Frame("main", file="hang.c", line=5),
)


def test_the_program_comes_before_its_libraries() -> None:
    assert [f.function for f in program_frames(LIVE)] == ["load_data", "train"]
    assert [f.function for f in program_frames(GDB)] == ["main"]
    thread = Thread(tid=1, frames=LIVE)
    assert place_words(thread) == "load_data (hang.c:3), called by train (hang.c:4)"


def test_python_comes_before_both_and_libraries_where_nothing_else_is() -> None:
    python = Frame("step", kind="python", file="/job/train.py", line=31)
    assert place_words(Thread(tid=1, frames=(*LIVE, python)), most=1) == "step (train.py:31)"
    assert place_words(Thread(tid=1, frames=LIVE[:2]), most=1) == (
        "clock_nanosleep (clock_nanosleep.c:48)"
    )


def test_who_tells_a_run_of_its_failure_is_told_from_who_only_has_its_hook() -> None:
    hook = Frame("_tell", kind="python", file="/x/postmortem/run/hook/_postmortem_hook.py", line=9)
    own = Frame("step", kind="python", file="/job/train.py", line=31)
    assert tells_run(Thread(tid=1, frames=(*LIVE[:1], hook, own)))
    assert not tells_run(Thread(tid=1, frames=(*LIVE[:1], own, hook)))
    assert not tells_run(Thread(tid=1, frames=LIVE))
