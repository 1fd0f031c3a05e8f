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
from postmortem.readers.python_locks import PythonLocks, stands_in
from postmortem.records import replace

if TYPE_CHECKING:
    from postmortem._native import RawCore, RawFutexWait, RawThread

_INNERMOST = 12
"""Frames in which the wait shows; a malloc() far out on the stack has nothing to do with it."""
_MUTEX = Pattern(r"pthread_mutex_(?:lock|timedlock|clocklock|cond_lock)|_L_lock_")
_CONDITION = Pattern(r"pthread_cond_(?:wait|timedwait|clockwait)")
_RWLOCK = Pattern(r"pthread_rwlock_")
_JOIN = Pattern(r"pthread_(?:join|timedjoin|clockjoin|tryjoin)")
_SEMAPHORE = Pattern(r"(?:new_|old_|^_*)sem_(?:wait|timedwait|clockwait)|do_futex_wait")
_LOW_LEVEL = Pattern(r"lll_lock_wait")
_HEAP = Pattern(r"^(?:_int_|__libc_)?(?:malloc|free|calloc|realloc|memalign)\b|arena_get")
_HANDLER = "<signal handler called>"
_STDIO = Pattern(
    r"^_*(?:IO_|f(?:write|read|puts|printf|flush|close)|puts|printf|vfprintf|flockfile)"
)
_BARRIER = Pattern(r"^gomp_(?:team_)?barrier_wait|pthread_barrier_wait|^std::(?:__tree_)?barrier<")

_OWNER_BITS = 0x3FFFFFFF
"""FUTEX_TID_MASK: robust and priority-inheriting mutexes, and those of musl that know an owner."""

_OF_MUSL = 0x80000010
"""What a plain mutex of musl holds while it is locked and waited for: EBUSY and a bit."""

_ENDS = (0x38, 0x2D0, 0x628)
"""Of struct pthread on x86-64: musl's detach_state, glibc's tid and, since 2.43, joinstate."""

_SHARED = 0x80
"""Bit of its kind: PTHREAD_PROCESS_SHARED."""
_KIND_BITS = 0x1FF
"""Bits that glibc uses in a mutex's kind: type, robust, inherit, protect, elision, shared."""


def read_waits(raw: RawCore) -> dict[int, Wait]:
    """Return what each thread waits for that stands in futex(2) or asks for the GIL, by its id."""
    threads = {row["tid"]: row for row in raw["threads"]}
    names = _names(threads)
    pointers = _thread_pointers(raw)
    locks = PythonLocks(raw["python"])
    waits: dict[int, Wait] = {}
    for row in raw["futex_waits"]:
        stack = names.get(row["tid"], ())
        wait = locks.wait(row, stack)
        if wait is None:
            wait = locks.among_processes(row["tid"], _native_wait(row, stack, threads, pointers))
        waits[row["tid"]] = replace(wait, timed=True) if row["timed"] else wait
    for tid, stack in names.items():
        between = locks.wait_between(tid, stack) if tid not in waits else None
        if between is not None:
            waits[tid] = between
    return waits


def _names(threads: Mapping[int, RawThread]) -> dict[int, tuple[str, ...]]:
    """Return the innermost functions of each thread; equal stacks are one list of rows."""
    known: dict[int, tuple[str, ...]] = {}
    names = {}
    for tid, thread in threads.items():
        rows = thread["frames"]
        if id(rows) not in known:
            known[id(rows)] = tuple(frame["function"] or "??" for frame in rows[:_INNERMOST])
        names[tid] = known[id(rows)]
    return names


def _thread_pointers(raw: RawCore) -> dict[int, int]:
    """Return pthread_t (struct pthread's address) to thread id; x86-64 only."""
    if "fs_base" not in raw["register_names"]:
        return {}
    index = raw["register_names"].index("fs_base")
    return {row["registers"][index]: row["tid"] for row in raw["threads"]}


def _native_wait(
    row: RawFutexWait,
    stack: tuple[str, ...],
    threads: Mapping[int, RawThread],
    pointers: Mapping[int, int],
) -> Wait:
    address, words = row["address"], row["words"]
    if row["operation"] == 0 and row["expected"] == _OF_MUSL:
        how = "a locked mutex of musl, which names no owner"
        return Wait("a mutex", address, kind="unowned mutex", certain=False, how=how)
    # first what contains the others: a condition variable takes its mutex again
    if stands_in(_MUTEX, stack) or _looks_like_mutex(row, stack, threads):
        return _mutex(row, threads, named=stands_in(_MUTEX, stack))
    if stands_in(_CONDITION, stack):
        return Wait("a condition variable", address, kind="condition", certain=False)
    nameless = all(name == "??" for name in stack[:2])
    joins = stands_in(_JOIN, stack)
    joined = _joined(row, pointers) if joins or nameless else None
    if joins and joined is None and words is not None and words[0] in threads:
        joined = words[0]
    if joined is not None:
        how = "the word that is waited on is in what the C library keeps of that thread"
        return Wait(f"thread {joined} to end", address, joined, kind="join", certain=joins, how=how)
    if joins:
        return Wait("a thread to end", address, kind="join", certain=False)
    writer = _writer(row)
    has_writer = writer > 1 and writer in threads  # 1 may be the word for sharing
    if stands_in(_RWLOCK, stack) or (nameless and has_writer):
        what = "a read-write lock"
        if has_writer:
            how = "the lock names the thread that writes"
            return Wait(what, address, writer, kind="rwlock", certain=not nameless, how=how)
        unnamed = "it names no writer: readers hold it, and it does not name those"
        how_not = unnamed if words is not None and writer == 0 else None
        # one in memory that processes share may be another one's
        kind = "futex" if row["shared"] else "rwlock"
        return Wait(what, address, kind=kind, certain=False, how=how_not)
    if stands_in(_LOW_LEVEL, stack):
        return _low_level(row, stack, pointers)
    if stands_in(_BARRIER, stack):
        kind = "futex" if row["shared"] else "barrier"
        return Wait("a barrier", address, kind=kind, certain=False)
    if stands_in(_SEMAPHORE, stack):
        return Wait("a semaphore", address, kind="semaphore", certain=False)
    kind = "futex" if row["shared"] else "private futex"
    return Wait("a futex", address, kind=kind, certain=False)


def _joined(row: RawFutexWait, pointers: Mapping[int, int]) -> int | None:
    """Return the thread in whose struct pthread the word tells of its end."""
    found = (pointers.get(row["address"] - offset) for offset in _ENDS)
    return next((tid for tid in found if tid is not None and tid != row["tid"]), None)


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
    if owner not in threads and lock & _OWNER_BITS in threads:
        how = "the mutex names its owner in the word that is waited on"
        return Wait(what, address, lock & _OWNER_BITS, kind="mutex", certain=named, how=how)
    if lock == 0 or owner == 0 or kind > _KIND_BITS:
        return Wait(what, address, kind="mutex", certain=False, how="it names no owner")
    if owner in threads:
        how = "the owner field of the mutex" if named else "a mutex by its layout, with this owner"
        if kind & _SHARED:
            how += "; processes share it: it may mean a thread of another one's pid namespace"
            named = False
        return Wait(what, address, owner, kind="mutex", certain=named, how=how)
    how = f"its owner field says {owner}, which is not a thread of this process"
    return Wait(what, address, kind="mutex", certain=False, how=how, missing_owner=owner)


def _writer(row: RawFutexWait) -> int:
    """Return which thread a pthread_rwlock_t says that writes; it names no reader.

    Threads wait on its third or fourth word; the writer is the seventh (struct_rwlock.h of glibc
    2.25 and later, x86-64 and aarch64), two words of padding and the word for sharing being 0.
    """
    words = row["words"] or (0,) * 5
    phase, turn = words[4], words[3]
    return phase if words[2] == words[3] == 0 else turn if words[1] == words[2] == 0 else 0


def _low_level(row: RawFutexWait, stack: tuple[str, ...], pointers: Mapping[int, int]) -> Wait:
    address, words = row["address"], row["words"]
    if stands_in(_HEAP, stack):
        wait = Wait("the C library's heap lock", address, kind="heap", certain=False)
        hit = stack[stack.index(_HANDLER) + 1 :] if _HANDLER in stack else ()
        if not stands_in(_HEAP, hit[:3]):
            return wait
        hit_by = "a signal handler in this thread interrupted malloc() or free(), which hold it"
        return replace(wait, holder=row["tid"], how=hit_by)
    if stands_in(_STDIO, stack):
        # _IO_lock_t: int lock, int count, and the owner as a pthread_t
        pointer = 0 if words is None else words[2] | words[3] << 32
        holder = pointers.get(pointer)
        how = None if holder is None else "the owner field of the stream's lock"
        return Wait("a stdio stream's lock", address, holder, kind="stdio", how=how)
    return Wait("a lock of the C library", address, kind="futex", certain=False)
