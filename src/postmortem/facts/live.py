"""Live processes of a job: where their threads stand, and what the kernel has them wait for."""

from __future__ import annotations

from postmortem.facts.stackdumps import StackClasses
from postmortem.facts.threads import Frame, Thread, Threads, own_frames
from postmortem.records import record
from postmortem.text import Pointer

_P_PID = 1
_LAST_PID = 2**31 - 1
"""Above are negative numbers: a group of processes, or any."""


@record
class Descriptor:
    """An open file of a process."""

    fd: int
    target: str
    """What ``/proc/PID/fd`` says: a path, ``"socket:[4711]"``, ``"pipe:[4712]"``."""
    kind: str
    """``"file"``, ``"socket"``, ``"pipe"``, ``"fifo"``, ``"device"``, ``"memory"``, ``"epoll"``,
    ``"event"`` or ``"other"``."""
    detail: str | None = None
    """What else is known: both addresses of a socket, the position in a file."""
    other_end: str | None = None
    """Who has the other end, or that nobody has it; None where that is not known."""
    peers: tuple[int, ...] = ()
    """The processes that have the other end of a connection."""

    @property
    def words(self) -> str:
        """``fd 7 (fifo /tmp/gate, nobody has it open for writing)``."""
        return f"fd {self.fd} ({self.inside})"

    @property
    def inside(self) -> str:
        """``fifo /tmp/gate, nobody has it open for writing``."""
        return ", ".join(part for part in (self._named(), self.other_end) if part)

    def _named(self) -> str:
        if self.kind == "socket":
            return self.detail or self.target
        name = self.target if self.kind in ("file", "device") else f"{self.kind} {self.target}"
        if self.kind == "pipe":
            name = self.target
        return f"{name}, {self.detail}" if self.detail else name


@record
class SystemCall:
    """The call that a thread is blocked in."""

    name: str
    arguments: tuple[Pointer, ...] = ()
    words: str = ""
    """With its arguments named: ``waits to read from fd 7 (fifo /tmp/gate)``."""
    fds: tuple[int, ...] = ()
    holders: tuple[int, ...] = ()
    """The processes that hold the lock of a file that it waits for."""

    @property
    def child(self) -> int | None:
        """The process whose end it waits for; None where it waits for any, or for none."""
        kind, pid = (*self.arguments, 0, 0)[:2]
        if self.name == "wait4":
            kind, pid = _P_PID, kind
        one = self.name in ("wait4", "waitid") and kind == _P_PID
        return pid if one and 0 < pid <= _LAST_PID else None


@record
class Task:
    """What the kernel says of one thread."""

    tid: int
    name: str
    state: str
    """One letter of proc_pid_stat(5): R, S, D, T, t, Z, X, I."""
    wait_channel: str | None = None
    """The kernel function that it sleeps in; None where it runs, or the kernel does not show it."""
    call: SystemCall | None = None
    kernel_stack: tuple[str, ...] = ()
    """Innermost first; root alone may read it."""
    cpu_seconds: float = 0.0


@record
class Reading:
    """How the stacks of a process were had."""

    way: str
    """``"native"``, ``"py-spy"``, ``"gdb"``, ``"faulthandler"`` or ``"none"``."""
    words: str
    """For people: ``"own reader, stopped for 41 ms"``."""
    stopped_seconds: float = 0.0


@record
class LiveProcess:
    """One process at one moment."""

    pid: int
    ppid: int
    state: str
    user: str
    argv: tuple[str, ...]
    label: str
    """``"rank 3"``, ``"pid 4711"``."""
    reading: Reading
    threads: Threads
    tasks: tuple[Task, ...] = ()
    descriptors: tuple[Descriptor, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    executable: str | None = None
    python_version: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    launcher: str | None = None
    hostname: str | None = None
    role: str | None = None
    """``"DataLoader worker"``, ``"torchrun agent"``; None for a rank, or a plain program."""
    works_for: int | None = None
    """The rank's process that it works for; None for a rank itself."""
    tracer: int | None = None
    started: float = 0.0
    """Seconds after the start of the system: tells a process from a later one of the same pid."""

    @property
    def main_thread(self) -> Thread | None:
        """The thread that the process started with."""
        return self.threads.main

    def task(self, tid: int) -> Task | None:
        """Return what the kernel says of a thread."""
        return next((task for task in self.tasks if task.tid == tid), None)

    def descriptor(self, number: int) -> Descriptor | None:
        """Return the open file of a number."""
        return next((one for one in self.descriptors if one.fd == number), None)


@record
class Gap:
    """What a main thread did between one sample and the next, when nothing was stopped."""

    seconds: float
    cpu_seconds: float
    switches: int
    """How often it went to sleep or was taken off the processor."""


@record
class Motion:
    """What a rank's main thread did between two samples, when nothing was stopped."""

    label: str
    cpu_share: float
    """Of one processor."""
    switches: int
    """How often it went to sleep or was taken off the processor."""
    moved: bool
    """It was in another place of its code."""
    ran_always: bool = False
    """It was on a processor, or ready for one, in every sample."""
    gaps: tuple[Gap, ...] = ()
    """The same in parts: one for each two samples that follow one another."""

    @property
    def is_busy(self) -> bool:
        """Whether it computed nearly all the time, and in one place."""
        return not self.moved and (self.cpu_share > 0.8 or self.ran_always)

    @property
    def is_still(self) -> bool:
        """Whether it neither ran nor woke up."""
        return not self.moved and self.switches < 2 and self.is_idle

    @property
    def is_idle(self) -> bool:
        """Whether it hardly ran, however often it woke up."""
        return self.cpu_share < 0.02

    @property
    def goes_on(self) -> bool:
        """Whether it did one thing after the other."""
        return self.moved or (self.switches > 1 and not self.is_busy)


@record
class HotCall:
    """A call that most looks at a busy thread have in common."""

    frame: Frame
    """With the line that it was seen at most often."""
    looks: int
    """How many of the looks found the thread below this call."""


@record
class HotPath:
    """Where the main thread of a busy process was found again and again."""

    pid: int
    looks: int
    calls: tuple[HotCall, ...]
    """The outermost first."""

    @property
    def own(self) -> HotCall:
        """The innermost call of the user's own code, else of whatever there is."""
        frames = tuple(call.frame for call in reversed(self.calls))
        inner = own_frames(Thread(tid=self.pid, frames=frames))[:1] or frames[:1]
        return next(call for call in reversed(self.calls) if call.frame == inner[0])


@record
class Pace:
    """How a rank kept up with the others, over many samples."""

    label: str
    samples: int
    stopped: int
    """Samples in which a signal had stopped it."""
    awaited: int
    """Samples in which it was in no collective, and half of all ranks waited in one."""
    steps: int
    """Gaps between two of those in which the others came out of a collective, to wait again."""
    went_on: int
    """Gaps between samples in which it did one thing after the other."""
    frame: Frame | None = None
    """Where its own code was seen most often while it was awaited."""
    ran: int = 0
    """Samples in which it was awaited and had a processor, or was ready for one."""


@record
class NcclRas:
    """What NCCL's RAS threads find amiss, in their words."""

    errors: tuple[str, ...] = ()
    """Processes that do not answer, communicators that are not whole."""
    warnings: tuple[str, ...] = ()
    """Ranks that are behind in a communicator, and the like."""


@record
class LiveJob:
    """All processes of a job on this node, and how far their ranks were seen to move."""

    processes: tuple[LiveProcess, ...]
    """The ranks in their order, then who works for them."""
    stacks: StackClasses
    """Of the ranks' main threads, over all samples."""
    samples: int = 1
    gap_seconds: float = 0.0
    motions: tuple[Motion, ...] = ()
    """Empty after one sample."""
    paces: tuple[Pace, ...] = ()
    """Of all ranks, where each was read every time."""
    hot_paths: tuple[HotPath, ...] = ()
    """Of ranks that wait for no other one and were seen to compute."""
    missing_local_ranks: tuple[int, ...] = ()
    """That their launcher should have, and that are not among its children."""
    zombies: tuple[int, ...] = ()
    """Processes of the job that have ended and that nobody has asked for."""
    nccl_ras: NcclRas | None = None
    """None where NCCL was not asked, or did not answer."""

    def ranks(self) -> tuple[LiveProcess, ...]:
        """Return the processes that stand for themselves: ranks, not their workers."""
        return tuple(one for one in self.processes if one.works_for is None)

    def process(self, label: str) -> LiveProcess | None:
        """Return the rank with a label."""
        return next((one for one in self.ranks() if one.label == label), None)

    def workers(self, pid: int) -> tuple[LiveProcess, ...]:
        """Return the processes that work for one."""
        return tuple(one for one in self.processes if one.works_for == pid)

    def motion(self, label: str) -> Motion | None:
        """Return how a rank moved; None after one sample."""
        return next((one for one in self.motions if one.label == label), None)

    def hot_path(self, pid: int) -> HotPath | None:
        """Return where a busy process spends its time; None where nobody looked, or it varies."""
        return next((one for one in self.hot_paths if one.pid == pid), None)

    @property
    def watched_seconds(self) -> float:
        """From the first sample to the last."""
        return self.gap_seconds * (self.samples - 1)

    @property
    def is_anything_known(self) -> bool:
        """Whether there is more than that processes exist: a stack, a system call, an open file."""
        return any(
            one.reading.way != "none" or one.descriptors or any(task.call for task in one.tasks)
            for one in self.processes
        )
