"""Threads with equal stacks, as groups with a summary in words."""

from __future__ import annotations

from collections.abc import Hashable

from postmortem.facts.threads import Frame, Thread, Threads
from postmortem.knowledge.frames import C_LIBRARY
from postmortem.knowledge.symbols import symbol
from postmortem.knowledge.threads import MAIN
from postmortem.records import record
from postmortem.sections.activity import (
    IDLE,
    RUNNING,
    WAITING,
    Activity,
    activity,
    area,
    kind_of,
)
from postmortem.sections.quantities import counted, some

_ORDER = (RUNNING, WAITING, IDLE)
_PLURALS = {"DataLoader worker process": "DataLoader worker processes"}


@record
class Group:
    """Threads that stood in the same place; the first of `threads` speaks for all."""

    id: int
    """Number in order of interest, from 0: the same core gives the same numbers."""
    threads: tuple[Thread, ...]
    activity: Activity
    label: str
    """Role, number and names: ``8 Python threads, wk0 … wk7``."""
    summary: str

    @property
    def tids(self) -> tuple[int, ...]:
        """Thread ids in the order of the core."""
        return tuple(thread.tid for thread in self.threads)

    @property
    def crashed(self) -> bool:
        """Whether it is the crashed thread, which is always a group of its own."""
        return self.threads[0].crashed


def groups(threads: Threads, executable: str | None = None) -> tuple[Group, ...]:
    """Return the threads in groups of equal stacks, the most telling group first.

    Frames are equal when function and module are: offsets, inlined calls, compilers' clones, and
    how the C library enters the kernel do not count. The crashed thread, the holder of the GIL,
    and the main thread stand alone.
    """
    members: dict[Hashable, list[Thread]] = {}
    for thread in threads:
        key = (
            thread.crashed,
            thread.holds_gil,
            thread.tid == threads.main_tid,
            thread.python_exception,
            stack_key(thread, executable),
        )
        members.setdefault(key, []).append(thread)
    found = [
        (tuple(same), activity(same[0], threads.main_tid, executable)) for same in members.values()
    ]
    found.sort(key=lambda item: _interest(*item, main_tid=threads.main_tid))
    inherited = threads.main.name if threads.main is not None else None
    return tuple(
        Group(
            number, same, act, (label := _label(same, act, inherited)), _summary(same, act, label)
        )
        for number, (same, act) in enumerate(found)
    )


def stack_key(thread: Thread, executable: str | None = None) -> Hashable:
    """Return what two threads share when they stand in the same place."""
    if not thread.frames:
        return ("no frames", thread.stopped)
    frames = [f for f in thread.frames if not (f.inlined or f.tail_call)] or list(thread.frames)
    start = 0
    while start < len(frames) - 1 and _enters_kernel(frames[start], executable):
        start += 1
    return tuple(
        frame_key(frame, innermost=number == 0) for number, frame in enumerate(frames[start:])
    )


def _enters_kernel(frame: Frame, executable: str | None) -> bool:
    # half of a pool spins and half sleeps in futex: to the reader they stand in the same place
    if frame.kind == "python" or area(frame, executable) != C_LIBRARY:
        return False
    return kind_of(frame, executable).wait


def frame_key(frame: Frame, *, innermost: bool = False) -> Hashable:
    """Return what two frames share when they are calls of the same function."""
    if frame.kind == "python":
        return (frame.file, frame.function)
    if frame.function != "??":
        return (symbol(frame.function).bare, frame.module)
    if innermost or frame.module is None:
        return ("??", frame.module)
    return ("??", frame.module, frame.module_offset)


def _interest(same: tuple[Thread, ...], act: Activity, *, main_tid: int) -> tuple[object, ...]:
    first = same[0]
    return (
        not first.crashed,
        not first.holds_gil,
        first.tid != main_tid,
        not any(thread.python_exception for thread in same),
        not any(t.waits_for is not None and t.waits_for.contended for t in same),
        _ORDER.index(act.state),
        len(same) if act.state == RUNNING else -len(same),
    )


def _summary(same: tuple[Thread, ...], act: Activity, label: str) -> str:
    first = same[0]
    verb = {RUNNING: "in", WAITING: "waiting in", IDLE: "idle in"}[act.state]
    extras = []
    if first.crashed:
        extras.append("crashed")
    if first.holds_gil:
        extras.append("holds the GIL")
    if first.waits_for is not None and first.waits_for.contended:
        holder = first.waits_for.holder
        held = "" if holder is None else f", which thread {holder} holds"
        extras.append(f"waits for {first.waits_for.what}{held}")
    words = ", ".join([label, *extras])
    return f"{words}, {verb} {act.where}"


def _label(same: tuple[Thread, ...], act: Activity, inherited: str | None) -> str:
    # threads that nobody named have the name of the thread that started them
    own = (t.python_name or (t.name if t.name != inherited else None) for t in same)
    names = list(dict.fromkeys(filter(None, own)))
    role = act.role or "thread"
    if len(same) == 1:
        label = "main thread" if role == MAIN else role
        return f'{label} "{names[0]}"' if names and role != MAIN else label
    plural = _PLURALS.get(role, f"{role}s")
    text = counted(len(same), role, plural)
    if len(names) > 3:
        return f"{text}, {names[0]} … {names[-1]}"
    return f"{text}, {some(names)}" if names else text
