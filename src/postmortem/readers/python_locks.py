"""What threads wait for in Python code: locks with their holders, and what is built of locks.

A Lock has no owner: its holder is who stands in a `with` block of it, or unknown. An RLock names
its owner (rlock_owner in Modules/_threadmodule.c). Condition, Event, Semaphore, Barrier, Queue and
Future wait on a lock of their own that nobody holds: the standard library's functions on the stack
say which of them it is (Lib/threading.py, queue.py, concurrent/futures/_base.py of 3.8 to 3.13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from postmortem.facts.threads import Wait
from postmortem.patterns import Pattern
from postmortem.records import record, replace

if TYPE_CHECKING:
    from postmortem._native import RawFutexWait, RawLock, RawPython, RawPythonFrame, RawPythonThread

_GIL_BYTES = 0x100
"""At least the size of struct _gil_runtime_state, whose condition variables threads wait on."""
_GIL = Pattern(r"^take_gil\b")
_PYTHON_LOCK = Pattern(r"^(?:lock_PyThread|PyThread_acquire_lock|acquire_timed|rlock_acquire)")
_SIMPLE_QUEUE = Pattern(r"^_?_?(?:queue_)?SimpleQueue_get|^simplequeue_get")
_CONDITION_WAIT = Pattern(r"(?:^|\.)wait(?:_for)?$")

_UNKNOWN = "a Lock names no owner, and no thread stands in a `with` block of it"
_PURPOSES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("threading.py", "wait_for"): ("a Condition", "condition"),
    ("threading.py", "acquire"): ("a Semaphore", "semaphore"),
    ("threading.py", "__enter__"): ("a Semaphore", "semaphore"),
    ("threading.py", "_wait"): ("a Barrier", "barrier"),
    ("threading.py", "_enter"): ("a Barrier", "barrier"),
    ("threading.py", "wait"): ("an Event", "event"),
    ("threading.py", "start"): ("a new thread to start", "event"),
    ("queue.py", "get"): ("an item in a Queue", "queue"),
    ("queue.py", "put"): ("room in a Queue", "queue"),
    ("queue.py", "join"): ("a Queue's tasks to be done", "queue"),
    ("_base.py", "result"): ("a Future's result", "future"),
    ("_base.py", "exception"): ("a Future's result", "future"),
    ("_base.py", "wait"): ("Futures to be done", "future"),
    ("_base.py", "as_completed"): ("Futures to be done", "future"),
}
"""By file and function of the callers of ``Condition.wait``; the outermost of a run counts."""
_AMONG_PROCESSES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("synchronize.py", "__enter__"): ("a lock or semaphore of processes", "semaphore"),
    ("synchronize.py", "wait_for"): ("a Condition of processes", "condition"),
    ("synchronize.py", "wait"): ("a Condition or an Event of processes", "event"),
    ("queues.py", "put"): ("room in a Queue of processes", "queue"),
    ("queues.py", "get"): ("an item in a Queue of processes", "queue"),
    ("queues.py", "join"): ("the tasks of a JoinableQueue to be done", "queue"),
}
"""The same of multiprocessing, whose locks are semaphores."""


@record
class Holder:
    """A thread inside a `with` block of a Python lock."""

    tid: int
    recursive: bool
    place: str | None


class PythonLocks:
    """The interpreter's locks as far as they can be known, for the waits of its threads."""

    def __init__(self, python: RawPython | None) -> None:
        self._threads: dict[int, RawPythonThread] = {}
        self._objects: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._gil = python["gil"] if python is not None else 0
        self._gil_holder = python["gil_holder"] if python is not None else None
        self._held: dict[int, list[Holder]] = {}
        for thread in python["threads"] if python is not None else ():
            tid = thread["tid"]
            if tid is None:
                continue
            self._threads.setdefault(tid, thread)
            if thread["object"]:
                self._objects[thread["object"]] = tid
            if thread["end_word"]:
                self._ends[thread["end_word"]] = tid
            self._add_held(tid, thread)

    def wait(self, row: RawFutexWait, stack: tuple[str, ...]) -> Wait | None:
        """Return what a thread in futex(2) waits for; None if that is no lock of Python's."""
        address, tid = row["address"], row["tid"]
        if stands_in(_GIL, stack) or (self._gil and 0 <= address - self._gil < _GIL_BYTES):
            return self._for_gil(address, tid)
        parked = row["parked"] != 0
        address = row["parked"] or address
        thread = self._threads.get(tid)
        frames = thread["frames"] if thread is not None else []
        joined = self._ends.get(address)
        if joined is not None and joined != tid:
            how = "its lock is the one that is released when that thread ends"
            return Wait(f"thread {joined} to end", address, joined, kind="join", how=how)
        locks = thread["at_hand"] if thread is not None else []
        lock = next((lock for lock in locks if lock["word"] == address), None)
        if lock is not None and lock["recursive"]:
            return self._for_rlock(address, lock)
        joined = self._joined(thread)
        if joined is not None and joined != tid:
            how = "the Thread whose join() was called"
            return Wait(f"thread {joined} to end", address, joined, kind="join", how=how)
        innermost = _function(frames[0]) if frames else ("", "")
        if stands_in(_SIMPLE_QUEUE, stack) or innermost == ("thread.py", "_worker"):
            what = "an item in a SimpleQueue"
            return Wait(what, address, kind="queue", certain=False)
        purpose = purpose_of(frames)
        if purpose is not None:
            return Wait(purpose[0], address, kind=purpose[1], certain=False)
        known = lock is not None or address in self._held
        if not known and not parked and not stands_in(_PYTHON_LOCK, stack):
            return None
        return self._for_lock(address)

    def among_processes(self, tid: int, wait: Wait) -> Wait:
        """Return a wait for a semaphore with what multiprocessing wants of it, where it is its."""
        thread = self._threads.get(tid)
        if wait.kind != "semaphore" or thread is None:
            return wait
        found = None
        for frame in thread["frames"][:4]:
            inside = "multiprocessing/" in (frame["file"] or "")
            purpose = _AMONG_PROCESSES.get(_function(frame)) if inside else None
            if purpose is None:
                break
            found = purpose
        return wait if found is None else replace(wait, what=found[0], kind=found[1])

    def wait_between(self, tid: int, stack: tuple[str, ...]) -> Wait | None:
        """Return the wait of a thread that is on its way into the next wait for the GIL.

        It asks anew every 5 ms (sys.getswitchinterval), so the dump may find it in between.
        """
        if not self._gil or not stands_in(_GIL, stack[:8]) or self._gil_holder == tid:
            return None
        return self._for_gil(self._gil, tid)

    def _for_gil(self, address: int, tid: int) -> Wait:
        holder = self._gil_holder if self._gil_holder != tid else None
        how = None if holder is None else "the interpreter's state names the holder"
        return Wait("the GIL", address, holder, kind="gil", how=how)

    def _for_rlock(self, address: int, lock: RawLock) -> Wait:
        what, holder = "a Python RLock", lock["owner_tid"]
        if holder is not None:
            held = self._held.get(address, ())
            place = next((row.place for row in held if row.tid == holder), None)
            how = "the owner field of the RLock"
            return Wait(what, address, holder, kind="python lock", how=how, held_at=place)
        if lock["owner"]:
            how = f"its owner field says {lock['owner']}, which is not a thread of this process"
            owner = lock["owner"]
            return Wait(
                what, address, kind="python lock", certain=False, how=how, missing_owner=owner
            )
        how = "nobody holds it: it was released just before"
        return Wait(what, address, kind="python lock", certain=False, how=how)

    def _for_lock(self, address: int) -> Wait:
        holders = self._held.get(address, [])
        if not holders:
            what = "a Python lock"
            return Wait(what, address, kind="python lock", certain=False, how=_UNKNOWN)
        what = "a Python RLock" if holders[0].recursive else "a Python lock"
        if len(holders) > 1:
            claim = ", ".join(str(holder.tid) for holder in holders[:8])
            how = f"threads {claim} all stand in a `with` block of it: the holder is not known"
            return Wait(what, address, kind="python lock", certain=False, how=how)
        return Wait(
            what,
            address,
            holders[0].tid,
            kind="python lock",
            certain=False,
            how="the holder is inside a `with` block of this lock",
            held_at=holders[0].place,
        )

    def _joined(self, thread: RawPythonThread | None) -> int | None:
        """Return the thread whose end a call of Thread.join waits for.

        3.13 waits in C for the handle of the thread; before, for a lock of the Thread.
        """
        if thread is None or not thread["frames"]:
            return None
        file, name = _function(thread["frames"][0])
        if file != "threading.py" or name not in ("join", "_wait_for_tstate_lock"):
            return None
        return self._objects.get(thread["receiver"] & ~7)  # 3.14 tags the slots of frames

    def _add_held(self, tid: int, thread: RawPythonThread) -> None:
        for lock in thread["held"]:
            # an RLock names its owner: what `with` left on another thread's stack is void
            if (lock["recursive"] and lock["owner_tid"] != tid) or _lends(thread, lock["frame"]):
                continue
            rows = self._held.setdefault(lock["word"], [])
            if all(row.tid != tid for row in rows):
                rows.append(Holder(tid, lock["recursive"], _place(thread, lock["frame"])))


def purpose_of(frames: list[RawPythonFrame]) -> tuple[str, str] | None:
    """Return what ``Condition.wait`` is called for, and its kind; None where it is not called.

    `frames` run from the innermost; up to 3.10 all methods called ``wait`` have this one name.
    """
    if not frames or _function(frames[0]) != ("threading.py", "wait"):
        return None
    found = ("a Condition", "condition")
    for frame in frames[1:5]:
        purpose = _PURPOSES.get(_function(frame))
        if purpose is None or (found[1] == "barrier" and purpose[1] == "event"):
            break
        found = purpose
    return found


def _function(frame: RawPythonFrame) -> tuple[str, str]:
    file = frame["file"] or ""
    if file.endswith(("_base.py", "thread.py")) and "concurrent/futures" not in file:
        return ("", "")
    return (file.rpartition("/")[2], frame["function"].rpartition(".")[2])


def _lends(thread: RawPythonThread, frame: int) -> bool:
    """Whether a Condition's wait() gives the lock back while the `with` block stands."""
    return any(
        (row["file"] or "").endswith("threading.py") and _CONDITION_WAIT.search(row["function"])
        for row in thread["frames"][:frame]
    )


def _place(thread: RawPythonThread, frame: int) -> str | None:
    if thread["skipped_at"] is not None and frame >= thread["skipped_at"]:
        frame -= thread["skipped"]
    if not 0 <= frame < len(thread["frames"]):
        return None
    row = thread["frames"][frame]
    file = (row["file"] or "?").rpartition("/")[2]
    line = "" if row["line"] is None else f":{row['line']}"
    return f"{row['function']} ({file}{line})"


def stands_in(pattern: Pattern, stack: tuple[str, ...]) -> bool:
    """Return whether a function of that name is on a stack."""
    return any(pattern.search(name) for name in stack)
