"""What threads wait for, and who holds it: futex waits matched with stacks and with locks.

A futex is only a word. What kind of lock it lies in is told by the functions on the stack and by
the words behind it; who holds it, by the lock itself where it names its owner. The structures are
those of glibc (sysdeps/nptl/bits/struct_mutex.h, bits/types/struct_FILE.h) on x86-64 and aarch64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from postmortem.facts.threads import Wait
from postmortem.patterns import Pattern
from postmortem.records import record

if TYPE_CHECKING:
    from postmortem._native import RawCore, RawFutexWait, RawPythonThread, RawThread

_INNERMOST = 12
"""Frames in which the wait shows; a malloc() far out on the stack has nothing to do with it."""
_MUTEX = Pattern(r"pthread_mutex_(?:lock|timedlock|clocklock|cond_lock)|_L_lock_")
_CONDITION = Pattern(r"pthread_cond_(?:wait|timedwait|clockwait)")
_RWLOCK = Pattern(r"pthread_rwlock_")
_JOIN = Pattern(r"pthread_(?:join|timedjoin|clockjoin|tryjoin)")
_SEMAPHORE = Pattern(r"(?:new_|old_|^_*)sem_(?:wait|timedwait|clockwait)|do_futex_wait")
_GIL = Pattern(r"^take_gil\b")
_PYTHON_LOCK = Pattern(r"^(?:lock_PyThread|PyThread_acquire_lock|acquire_timed|rlock_acquire)")
_LOW_LEVEL = Pattern(r"lll_lock_wait")
_HEAP = Pattern(r"^(?:_int_|__libc_)?(?:malloc|free|calloc|realloc|memalign)\b|arena_get")
_STDIO = Pattern(
    r"^_*(?:IO_|f(?:write|read|puts|printf|flush|close)|puts|printf|vfprintf|flockfile)"
)
_BARRIER = Pattern(r"^gomp_(?:team_)?barrier_wait|pthread_barrier_wait")
_CONDITION_WAIT = Pattern(r"(?:^|\.)wait(?:_for)?$")

_KIND_BITS = 0x1FF
"""Bits that glibc uses in a mutex's kind: type, robust, inherit, protect, elision, shared."""


@record
class _Holder:
    """A thread inside a `with` block of a Python lock."""

    tid: int
    recursive: bool
    place: str | None


def read_waits(raw: RawCore) -> dict[int, Wait]:
    """Return what each thread that stands in futex(2) waits for, by thread id."""
    if not raw["futex_waits"]:
        return {}
    threads = {row["tid"]: row for row in raw["threads"]}
    names = {tid: _names(row) for tid, row in threads.items()}
    pointers = _thread_pointers(raw)
    held = _held(raw)
    gil = raw["python"]["gil_holder"] if raw["python"] is not None else None
    waits: dict[int, Wait] = {}
    for row in raw["futex_waits"]:
        stack = names.get(row["tid"], ())
        wait = _python_wait(row, stack, held, gil) or _native_wait(row, stack, threads, pointers)
        waits[row["tid"]] = wait
    return waits


def _names(thread: RawThread) -> tuple[str, ...]:
    return tuple(frame["function"] or "??" for frame in thread["frames"][:_INNERMOST])


def _thread_pointers(raw: RawCore) -> dict[int, int]:
    """Return pthread_t (struct pthread's address) to thread id; x86-64 only."""
    if "fs_base" not in raw["register_names"]:
        return {}
    index = raw["register_names"].index("fs_base")
    return {row["registers"][index]: row["tid"] for row in raw["threads"]}


def _held(raw: RawCore) -> dict[int, list[_Holder]]:
    """Return the Python locks that `with` blocks hold, by the word that others wait on."""
    found: dict[int, list[_Holder]] = {}
    for thread in raw["python"]["threads"] if raw["python"] is not None else ():
        tid = thread["tid"]
        if tid is None:
            continue
        for lock in thread["held"]:
            if _lends(thread, lock["frame"]):
                continue
            holder = _Holder(tid, lock["recursive"], _place(thread, lock["frame"]))
            rows = found.setdefault(lock["word"], [])
            if all(row.tid != tid for row in rows):
                rows.append(holder)
    return found


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


def _any(pattern: Pattern, stack: tuple[str, ...]) -> bool:
    return any(pattern.search(name) for name in stack)


def _python_wait(
    row: RawFutexWait, stack: tuple[str, ...], held: Mapping[int, list[_Holder]], gil: int | None
) -> Wait | None:
    address, tid = row["address"], row["tid"]
    if _any(_GIL, stack):
        holder = gil if gil != tid else None
        how = None if holder is None else "the interpreter's state names the holder"
        return Wait("the GIL", address, holder, kind="gil", how=how)
    holders = held.get(address)
    if holders is None:
        if not _any(_PYTHON_LOCK, stack):
            return None
        return Wait("a Python lock", address, kind="python lock", certain=False)
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


def _native_wait(
    row: RawFutexWait,
    stack: tuple[str, ...],
    threads: Mapping[int, RawThread],
    pointers: Mapping[int, int],
) -> Wait:
    address, words = row["address"], row["words"]
    # first what contains the others: a condition variable takes its mutex again
    if _any(_MUTEX, stack) or _looks_like_mutex(row, stack, threads):
        return _mutex(row, threads, named=_any(_MUTEX, stack))
    if _any(_CONDITION, stack):
        return Wait("a condition variable", address, kind="condition", certain=False)
    if _any(_JOIN, stack):
        joined = words[0] if words is not None and words[0] in threads else None
        if joined is None:
            return Wait("a thread to end", address, kind="join", certain=False)
        how = "the word that pthread_join() waits on is the id of that thread"
        return Wait(f"thread {joined} to end", address, joined, kind="join", how=how)
    if _any(_RWLOCK, stack):
        return Wait("a read-write lock", address, kind="rwlock", certain=False)
    if _any(_LOW_LEVEL, stack):
        return _low_level(row, stack, pointers)
    if _any(_BARRIER, stack):
        return Wait("a barrier", address, kind="barrier", certain=False)
    if _any(_SEMAPHORE, stack):
        return Wait("a semaphore", address, kind="semaphore", certain=False)
    return Wait("a futex", address, kind="futex", certain=False)


def _looks_like_mutex(
    row: RawFutexWait, stack: tuple[str, ...], threads: Mapping[int, RawThread]
) -> bool:
    """Whether nameless code waits on what has all marks of a locked mutex with a live owner."""
    words = row["words"]
    if words is None or any(name != "??" for name in stack[:2]):
        return False
    lock, count, owner, users, kind = words
    waited = row["operation"] == 0 and row["expected"] == 2 and lock == 2
    return waited and owner in threads and count < 1 << 20 and users >= 1 and kind <= _KIND_BITS


def _mutex(row: RawFutexWait, threads: Mapping[int, RawThread], *, named: bool) -> Wait:
    what, address, words = "a pthread mutex", row["address"], row["words"]
    if words is None:
        return Wait(what, address, kind="mutex", certain=False, how="the core does not hold it")
    lock, _, owner, _, kind = words
    if lock == 0 or owner == 0 or kind > _KIND_BITS:
        return Wait(what, address, kind="mutex", certain=False, how="it names no owner")
    if owner in threads:
        how = "the owner field of the mutex" if named else "a mutex by its layout, with this owner"
        return Wait(what, address, owner, kind="mutex", certain=named, how=how)
    how = f"its owner field says {owner}, which is no thread of this process"
    return Wait(what, address, kind="mutex", certain=False, how=how, missing_owner=owner)


def _low_level(row: RawFutexWait, stack: tuple[str, ...], pointers: Mapping[int, int]) -> Wait:
    address, words = row["address"], row["words"]
    if _any(_HEAP, stack):
        return Wait("the C library's heap lock", address, kind="heap", certain=False)
    if _any(_STDIO, stack):
        # _IO_lock_t: int lock, int count, and the owner as a pthread_t
        pointer = 0 if words is None else words[2] | words[3] << 32
        holder = pointers.get(pointer)
        how = None if holder is None else "the owner field of the stream's lock"
        return Wait("a stdio stream's lock", address, holder, kind="stdio", how=how)
    return Wait("a lock of the C library", address, kind="futex", certain=False)
