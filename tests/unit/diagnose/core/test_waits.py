"""Whole processes, and event loops, in which nothing is left to wake who waits."""

import pytest

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.signals.deadlock import deadlock
from postmortem.diagnose.rule import Confidence, Finding
from postmortem.facts.threads import AsyncTask, Frame, Thread, Threads, Wait

_FRAMES = (Frame("syscall", module="/lib64/libc.so.6"), Frame("step()", module="/app/trainer"))


def _found(threads: Threads) -> list[Finding]:
    return list(deadlock.function(FaultKind.SNAPSHOT, threads))


def _waiting(*kinds: str, timed: bool = False, python: bool = False) -> Threads:
    """Return a process whose threads wait so, the first one for the second where it joins."""
    items = [
        Thread(
            tid,
            frames=_FRAMES,
            python_name=f"Thread-{tid}" if python else None,
            waits_for=Wait("something", 16 * tid, 2 if kind == "join" else None, kind, timed=timed),
        )
        for tid, kind in enumerate(kinds, 1)
    ]
    return Threads(tuple(items), 1)


@pytest.mark.parametrize("kind", ["barrier", "condition", "private futex"])
def test_whom_the_main_thread_joins_waits_for_another_of_them(kind: str) -> None:
    (found,) = _found(_waiting("join", kind, kind))
    assert found.confidence is Confidence.POSSIBLE


def test_a_barrier_that_not_all_of_pythons_threads_reach() -> None:
    (found,) = _found(_waiting("barrier", "barrier", python=True))
    assert found.confidence is Confidence.LIKELY


@pytest.mark.parametrize("kind", ["rwlock", "future", "python lock", "barrier"])
def test_the_only_thread_waits_for_what_another_one_does(kind: str) -> None:
    (found,) = _found(_waiting(kind))
    assert found.confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    "threads",
    [
        pytest.param(_waiting("join", "barrier", timed=True), id="they go on by themselves"),
        pytest.param(_waiting("private futex", "private futex"), id="a run-time that is idle"),
        pytest.param(_waiting("join", "semaphore"), id="another process may post it"),
        pytest.param(_waiting("join", "futex"), id="another process may wake it"),
        pytest.param(_waiting("event", "queue", python=True), id="a handler may set the Event"),
        pytest.param(_waiting("join", "queue", python=True), id="a worker without work"),
        pytest.param(_waiting("condition"), id="the only thread, a handler of whose notifies"),
    ],
)
def test_what_may_go_on_is_no_deadlock(threads: Threads) -> None:
    assert not _found(threads)


def _task(name: str, *awaits: str, tid: int = 1) -> AsyncTask:
    place = Frame(name, "python", file="/app/train.py", line=7)
    return AsyncTask(name, tid, False, (place,), "Task" if awaits else "Future", awaits)


def _loop(*tasks: AsyncTask, idle: bool = True, others: int = 0) -> Threads:
    names = ("MainThread", *(f"worker-{i}" for i in range(others)))
    items = tuple(Thread(i, frames=_FRAMES, python_name=n) for i, n in enumerate(names, 1))
    return Threads(items, 1, async_tasks=tasks, idle_loops=frozenset({1} if idle else ()))


def test_tasks_that_await_each_other() -> None:
    (found,) = _found(_loop(_task("a", "b"), _task("b", "c"), _task("c", "a"), _task("main", "a")))
    assert found.confidence is Confidence.LIKELY
    assert {item.where for item in found.evidence} == {"task a", "task b", "task c", "task main"}


def test_tasks_of_a_loop_with_nothing_due() -> None:
    (found,) = _found(_loop(_task("save"), _task("main", "save", "load"), _task("load")))
    assert found.confidence is Confidence.POSSIBLE


@pytest.mark.parametrize(
    "threads",
    [
        pytest.param(_loop(_task("a"), idle=False), id="a timer, a socket or a call is due"),
        pytest.param(_loop(_task("a"), others=1), id="another thread may call the loop"),
        pytest.param(_loop(), id="no task"),
        pytest.param(_loop(_task("a", tid=2)), id="of a loop that nobody runs"),
    ],
)
def test_a_loop_that_something_may_wake_is_no_deadlock(threads: Threads) -> None:
    assert not _found(threads)
