"""Kind ``hang``: live processes."""

from __future__ import annotations

from typing import Literal

from postmortem.facts import live
from postmortem.facts.live import Descriptor, NcclRas, SystemCall
from postmortem.report.contract import Shape
from postmortem.report.contract.logs import Stacks
from postmortem.report.contract.threads import AsyncTask, Frame, Greenlet, Group, ThreadState


class LiveThread(ThreadState):
    does: str
    """what it waits for, in words, along the holders of locks"""
    state: str | None
    wait_channel: str | None
    system_call: SystemCall | None
    """null where the thread is in none"""
    kernel_stack: list[str]
    """root alone may read it"""
    frames: list[Frame]


class Motion(Shape, of=live.Motion, without=("label", "ran_always")):
    pass


class HotCall(Shape):
    kind: Literal["native", "python"]
    function: str
    module: str | None
    file: str | None
    line: int | None
    """that it was seen at most often"""
    looks: int
    """that found the thread in this call"""


class HotPath(Shape, of=live.HotPath, without=("pid",)):
    calls: list[HotCall]
    """that more than half of the looks have in common, the outermost first"""


class LiveProcess(Shape, of=live.LiveProcess, without=("tasks", "env", "started")):
    read_by: Literal["native", "py-spy", "gdb", "faulthandler", "none"]
    """whose stacks these are"""
    reading: str
    """the same in words"""
    stopped_seconds: float
    """how long the process stood still"""
    motion: Motion | None
    """between the samples; null after one"""
    hot_path: HotPath | None
    """of a process that computes and waits for no other one"""
    main_thread: int
    threads: list[LiveThread]
    groups: list[Group]
    async_tasks: list[AsyncTask]
    """of asyncio, that have not ended (CPython 3.11 to 3.14)"""
    greenlets: list[Greenlet]
    """that are switched out (greenlet 2.0 and later)"""
    descriptors: list[Descriptor]
    """open files"""


class Stuck(Shape):
    label: str
    rank: int | None
    why: str
    pid: int | None


class Hang(Shape):
    processes: list[LiveProcess]
    """the ranks, then who works for them"""
    stacks: Stacks
    """classes of the ranks' main threads"""
    samples: int
    gap_seconds: float
    decided_by: str
    """as in kind `logs`"""
    stuck: list[Stuck]
    """who holds up the others"""
    candidates: list[Stuck]
    """who it may be, where it cannot be decided"""
    missing_local_ranks: list[int]
    zombies: list[int]
    """processes of the job that have ended and that nobody has asked for"""
    nccl_ras: NcclRas | None
    """what NCCL's RAS threads find amiss, in their words; null where they were not asked"""
