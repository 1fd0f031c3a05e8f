"""Threads with like stacks, as groups with a summary in words."""

from collections.abc import Hashable

from postmortem.diagnose.stacks.activity import IDLE, RUNNING, WAITING, Activity, activity
from postmortem.diagnose.stacks.frame_identity import stack_key
from postmortem.facts.threads import Frame, Thread, Threads
from postmortem.knowledge.threads import MAIN
from postmortem.records import record
from postmortem.text import counted, some

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
    """Return the threads in groups of like stacks, the most telling group first.

    Frames are alike when function and library are, of the user's own Python code the line too;
    `likeness` says what does not count. The crashed thread, the holder of the GIL, and the main
    thread stand alone.
    """
    members: dict[Hashable, list[Thread]] = {}
    stacks = _StackNumbers(executable)
    for thread in threads:
        key = (
            thread.crashed,
            thread.holds_gil,
            thread.tid == threads.main_tid,
            thread.python_exception.type if thread.python_exception is not None else None,
            stacks.of(thread.frames) if thread.frames else thread.stopped,
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


class _StackNumbers:
    """Numbers stacks so that like ones have one number; those of shared frames are seen once."""

    def __init__(self, executable: str | None) -> None:
        self._executable = executable
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[object, int]] = {}  # by id, with what has it

    def of(self, frames: tuple[Frame, ...]) -> int:
        known = self._known.get(id(frames))
        if known is None:
            key = stack_key(frames, self._executable)
            number = self._numbers.setdefault(key, len(self._numbers))
            known = self._known[id(frames)] = frames, number
        return known[1]


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
        join = first.waits_for.kind == "join"  # its words name the thread
        held = "" if holder is None or join else f", which thread {holder} holds"
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
