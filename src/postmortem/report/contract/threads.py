"""Threads and their stacks, the same in every kind that has them."""

from __future__ import annotations

from typing import Literal

from postmortem.facts import threads
from postmortem.report.contract import Shape


class Wait(Shape, of=threads.Wait, without=("certain",)):
    confidence: Literal["certain", "likely"] | None
    """that of `holder`"""


class Frame(Shape, of=threads.Frame, without=("locals",)):
    arguments: dict[str, str]
    note: str | None
    area: str | None


class FrameLocals(Frame):
    locals: dict[str, str]
    """with --locals"""


_NOT_OF_STATE = ("registers", "frames", "left_out", "handles")


class ThreadState(Shape, of=threads.Thread, without=_NOT_OF_STATE):
    role: str | None
    group: int | None
    waits_for: Wait | None
    """what the thread waits for"""


class Thread(ThreadState):
    frames: list[Frame | FrameLocals]
    """from the innermost (where it stopped) to the outermost, Python frames where their evaluator
    frames were"""


class TaskFrame(Shape):
    function: str
    file: str | None
    line: int | None


class AsyncTask(Shape, of=threads.AsyncTask):
    frames: list[TaskFrame]
    """from what it awaits to its own coroutine"""


class Greenlet(Shape, of=threads.Greenlet):
    frames: list[TaskFrame]
    """from where it will go on to its outermost call"""


class Group(Shape):
    id: int
    tids: list[int]
    summary: str
    role: str | None
    state: str | None
