"""Kind ``hang``: live processes."""

from __future__ import annotations

from typing import Literal

from postmortem.report.contract import Address, Shape
from postmortem.report.contract.logs import Stacks
from postmortem.report.contract.threads import AsyncTask, Frame, Group, ThreadState


class SystemCall(Shape):
    name: str
    arguments: list[Address]
    words: str
    fds: list[int]


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


class Motion(Shape):
    moved: bool
    """another place of its code"""
    cpu_share: float
    switches: int


class HotCall(Shape):
    kind: Literal["native", "python"]
    function: str
    module: str | None
    file: str | None
    line: int | None
    """that it was seen at most often"""
    looks: int
    """that found the thread in this call"""


class HotPath(Shape):
    looks: int
    calls: list[HotCall]
    """that more than half of the looks have in common, the outermost first"""


class Descriptor(Shape):
    fd: int
    target: str
    kind: str
    detail: str | None
    """both addresses of a socket"""
    other_end: str | None
    """who has it; of those that threads wait for"""


class LiveProcess(Shape):
    pid: int
    ppid: int
    label: str
    rank: int | None
    local_rank: int | None
    world_size: int | None
    launcher: str | None
    hostname: str | None
    role: str | None
    works_for: int | None
    """the rank's pid"""
    user: str
    state: str
    """a letter of proc_pid_stat(5)"""
    tracer: int | None
    executable: str | None
    argv: list[str]
    python_version: str | None
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
    descriptors: list[Descriptor]
    """open files"""


class NcclRas(Shape):
    errors: list[str]
    """processes that do not answer, communicators that are not whole"""
    warnings: list[str]
    """ranks that are behind in a communicator, and the like"""


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
