"""Threads and their stacks, the same in every kind that has them."""

from __future__ import annotations

from typing import Literal

from postmortem.facts.threads import Trust
from postmortem.report.contract import Address, Shape


class Raised(Shape):
    type: str
    message: str


class Wait(Shape):
    what: str
    """"a Python RLock", "an item in a Queue", "thread 4711 to end\""""
    address: Address
    holder: int | None
    """a thread ID; null where it is not known"""
    kind: str
    confidence: Literal["certain", "likely"] | None
    """that of `holder`"""
    how: str | None
    """how the holder is known"""
    held_at: str | None
    """where a `with` block took it"""
    missing_owner: int | None
    """the lock names a thread that is not in the process"""
    timed: bool
    """the wait has a time-out"""


class Frame(Shape):
    kind: Literal["native", "python"]
    function: str
    pc: Address | None
    module: str | None
    module_offset: Address | None
    file: str | None
    line: int | None
    inlined: bool
    tail_call: bool
    note: str | None
    area: str | None
    trust: Trust
    arguments: dict[str, str]


class FrameLocals(Frame):
    locals: dict[str, str]
    """with --locals"""


class ThreadState(Shape):
    tid: int
    name: str | None
    python_name: str | None
    role: str | None
    crashed: bool
    holds_gil: bool
    group: int | None
    python_exception: Raised | None
    waits_for: Wait | None
    """what the thread waits for"""
    stopped: str | None
    skipped_frames: int
    skipped_at: int | None


class Thread(ThreadState):
    frames: list[Frame | FrameLocals]
    """from the innermost (where it stopped) to the outermost, Python frames where their evaluator
    frames were"""


class TaskFrame(Shape):
    function: str
    file: str | None
    line: int | None


class AsyncTask(Shape):
    name: str
    tid: int | None
    """of the thread that runs its event loop"""
    running: bool
    """its innermost frame is on the stack of that thread"""
    frames: list[TaskFrame]
    """from what it awaits to its own coroutine"""
    waits_on: str | None
    """type of the future that wakes it"""
    waits_for: list[str]
    """names of the tasks that it awaits"""


class Group(Shape):
    id: int
    tids: list[int]
    summary: str
    role: str | None
    state: str | None
