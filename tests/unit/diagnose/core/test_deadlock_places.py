"""Which frame of a thread that waits for a lock is cited: the one of its own code."""

import pytest

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.signals.deadlock import deadlock
from postmortem.facts.threads import Frame, Thread, Threads, Wait
from postmortem.present.circle_places import circle_places

_LIBC, _OWN = "/lib/x86_64-linux-gnu/libc.so.6", "/app/trainer"
_LOCK = (
    Frame("futex_wait", module=_LIBC, file="../sysdeps/nptl/futex-internal.h", inlined=True),
    Frame("pthread_mutex_lock", module=_LIBC, file="./nptl/pthread_mutex_lock.c", line=93),
)
_HEADERS = "/usr/include/c++/12/bits/"


def _header(function: str, file: str, *, inlined: bool) -> Frame:
    return Frame(function, module=_OWN, file=_HEADERS + file, line=100, inlined=inlined)


def _waiting(*own: Frame) -> Threads:
    """Return two threads with this stack that wait for each other, and one that does not wait."""
    frames = (*_LOCK, *own, Frame("start_thread", module=_LIBC))
    threads = [
        Thread(tid, frames=frames, waits_for=Wait("a pthread mutex", 0x10, 3 - tid, "mutex"))
        for tid in (1, 2)
    ]
    return Threads((Thread(3, frames=_LOCK), *threads), 3)


def _cited(*own: Frame) -> list[str]:
    """Return what is cited of them."""
    (finding,) = deadlock.function(FaultKind.SENT_BY_ITSELF, _waiting(*own))
    return [item.what for item in finding.evidence if "frame" in item.where]


@pytest.mark.parametrize("inlined", [True, False])
def test_the_lock_guard_is_not_the_place(*, inlined: bool) -> None:
    guard = (
        _header("__gthread_mutex_lock", "gthr-default.h", inlined=inlined),
        _header("std::mutex::lock()", "std_mutex.h", inlined=inlined),
        _header("std::lock_guard<std::mutex>::lock_guard", "std_mutex.h", inlined=inlined),
    )
    step = Frame("step()", module=_OWN, file="/src/train.cpp", line=7)
    assert _cited(*guard, step) == ["step (train.cpp:7)"] * 2


def test_code_inlined_into_the_body_of_a_thread_is_the_nearest_there_is() -> None:
    body = Frame("std::thread::_State_impl<main::{lambda()#1}>::_M_run()", module=_OWN)
    assert all(what.startswith("std::thread::_State_impl") for what in _cited(body))


def test_the_card_has_the_lines_of_those_that_wait() -> None:
    """Not that of the main thread, which only joins them."""
    step = Frame("step()", module=_OWN, file="/src/train.cpp", line=7)
    assert [(p.file, p.line) for p in circle_places(_waiting(step))] == [("/src/train.cpp", 7)] * 2


def test_the_card_prefers_python() -> None:
    step = Frame("step", file="/app/train.py", line=9, kind="python")
    places = circle_places(_waiting(Frame("lock", module=_OWN), step))
    assert [(p.function, p.line, p.module) for p in places] == [("step", 9, None)] * 2


def test_nobody_waits() -> None:
    assert circle_places(Threads((Thread(3, frames=_LOCK),), 3)) == ()


@pytest.mark.parametrize(
    ("waits", "confidence"),
    [
        ((Wait("a", 1, kind="python lock"), Wait("b", 2, kind="queue")), "likely"),
        ((Wait("a", 1, kind="future"), Wait("b", 2, kind="future")), "possible"),
        ((Wait("a", 1, kind="python lock"), Wait("b", 2, kind="queue", timed=True)), None),
        ((Wait("a", 1, kind="event"), Wait("b", 2, kind="queue")), None),  # signal handlers set it
        ((Wait("a", 1, kind="python lock"), None), None),
        ((Wait("a", 1, kind="python lock"), Wait("b", 2, kind="mutex")), None),
    ],
)
def test_no_thread_of_python_is_left_to_let_another_go_on(
    waits: tuple[Wait | None, ...], confidence: str | None
) -> None:
    own = (Frame("step", "python", file="/src/train.py", line=7),)
    python = [
        Thread(tid, python_name=f"T{tid}", frames=own, waits_for=wait)
        for tid, wait in enumerate(waits, 1)
    ]
    found = deadlock.function(FaultKind.SNAPSHOT, Threads((*python, Thread(9, frames=_LOCK)), 1))
    assert [one.confidence for one in found] == ([confidence] if confidence else [])
