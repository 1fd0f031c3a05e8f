"""Which frame of a thread that waits for a lock is cited: the one of its own code."""

from __future__ import annotations

import pytest

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.signals.deadlock import deadlock
from postmortem.facts.threads import Frame, Thread, Threads, Wait

_LIBC, _OWN = "/lib/x86_64-linux-gnu/libc.so.6", "/app/trainer"
_LOCK = (
    Frame("futex_wait", module=_LIBC, file="../sysdeps/nptl/futex-internal.h", inlined=True),
    Frame("pthread_mutex_lock", module=_LIBC, file="./nptl/pthread_mutex_lock.c", line=93),
)
_HEADERS = "/usr/include/c++/12/bits/"


def _header(function: str, file: str, *, inlined: bool) -> Frame:
    return Frame(function, module=_OWN, file=_HEADERS + file, line=100, inlined=inlined)


def _cited(*own: Frame) -> list[str]:
    """Return what is cited of two threads with this stack that wait for each other."""
    frames = (*_LOCK, *own, Frame("start_thread", module=_LIBC))
    threads = [
        Thread(tid, frames=frames, waits_for=Wait("a pthread mutex", 0x10, 3 - tid, "mutex"))
        for tid in (1, 2)
    ]
    (finding,) = deadlock.function(FaultKind.SENT_BY_ITSELF, Threads(tuple(threads), 1))
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
