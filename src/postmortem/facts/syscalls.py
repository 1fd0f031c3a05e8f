"""What a system-call log says: failed calls and what they were about, tasks, totals."""

from __future__ import annotations

from postmortem.facts import syscall_totals
from postmortem.records import record, replace

NO_ROOM = frozenset({"ENOSPC", "EDQUOT", "EIO"})
"""What a SIGBUS on a mapped file may stand for: no call is there to return it."""


@record
class LogPlace:
    """A line of a log."""

    file: str
    line: int
    pid: int
    syscall: str


@record
class Target:
    """The file, socket or other thing that a call was about."""

    path: str | None
    kind: str
    """``"file"``, ``"socket"``, ``"pipe"``, ``"memfd"``, ``"device"``, ``"other"`` or
    ``"unknown"``."""
    source: str
    """``"tracked"`` (followed from its open), ``"annotated"`` (strace -y wrote it), ``"argument"``
    (the call names it), ``"unknown"``."""
    deleted: bool = False
    nameless: bool = False
    """It was opened with O_TMPFILE: `path` is the folder that it is in."""
    guessed: bool = False
    """A descriptor sent over a socket whose other end the log does not show: paired by order."""
    opened: LogPlace | None = None
    given: LogPlace | None = None
    """The call that gave the process this number: the open itself, a dup, a message."""
    flags: str = ""
    label: str = ""
    written_bytes: int = 0
    read_bytes: int = 0

    @property
    def words(self) -> str:
        """What to call it."""
        if self.path is None:
            return self.label or {"unknown": "an unknown file"}.get(self.kind, f"a {self.kind}")
        if self.nameless:
            return f"a nameless file in {self.path}"
        return self.path + (" (deleted)" if self.deleted else "")


@record
class Ending:
    """How a task ended."""

    file: str
    line: int
    code: int | None
    signal: str | None
    core: bool
    sender_pid: int | None = None
    """The process that sent the signal, where the log shows it."""
    fault: str | None = None
    """``SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=NULL} ---`` of one that no process
    sent, as strace wrote it."""
    time: float | None = None
    told: bool = True
    """False: its call to exit() is in the log, but not its end (strace -qq)."""


@record
class Holder:
    """A process and its number for a descriptor."""

    pid: int
    fd: int


@record
class Awaited:
    """A descriptor that a blocked call waits for."""

    fd: int
    target: Target
    other_end_known: bool = False
    """The log shows what the other end of the pipe or socket is."""
    holders: tuple[Holder, ...] = ()
    """Who has the other end open."""
    holder_count: int = 0


@record
class FutexUse:
    """Who did what last with a futex, before the log ended."""

    woken_by: int | None
    woken_line: int
    passed_by: int | None
    """The task whose wait ended last: it may hold the lock."""
    passed_line: int


@record
class Blocked:
    """The call in which a task was when it or the log ended."""

    file: str
    line: int
    syscall: str
    text: str
    target: Target | None
    since: float | None = None
    """The stamp of the line on which it began."""
    awaited: tuple[Awaited, ...] = ()
    futex: FutexUse | None = None
    arguments: tuple[str, ...] = ()
    """Each as strace wrote it."""
    returned: int | None = None


@record
class Interruption:
    """A signal from elsewhere that asked a process to end, and the call that it got it out of."""

    signal: str
    sender_pid: int | None
    """None: the terminal, or the kernel."""
    file: str
    line: int
    pid: int
    syscall: str | None
    target: str | None
    seconds: float


@record
class LastFailure:
    """A call that failed not long before its process ended."""

    errno: str
    syscall: str
    path: str | None
    file: str
    line: int
    pid: int
    direct: bool = False
    """Of a file that was, or was to be, opened with O_DIRECT."""


@record
class TaskCall:
    """How often a task made a call, and how long it was in it."""

    name: str
    calls: int
    seconds: float
    brought: int = 0
    """Those that returned a number above 0: bytes, descriptors that are ready."""
    again: int = 0
    """Those that failed with EAGAIN."""
    file: str = ""
    line: int = 0
    """Of the last wait that found something, or other call that brought nothing."""
    text: str = ""
    """As the log has it; of what reads, waits or asks alone."""
    arguments: tuple[str, ...] = ()
    """Each as strace wrote it."""
    returned: int | None = None


@record
class Task:
    """One task from start to end."""

    pid: int
    ppid: int | None
    thread_of: int | None
    argv: tuple[str, ...] | None
    ending: Ending | None = None
    blocked: Blocked | None = None
    began: float | None = None
    recorded: bool = True
    """The log has calls of it."""
    rank: int | None = None
    """As its environment, which strace -v records, or its arguments say."""
    local_rank: int | None = None
    """On its machine."""
    calls: tuple[TaskCall, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    last_failures: tuple[LastFailure, ...] = ()
    last_words: tuple[str, ...] = ()
    """What it wrote last to its standard error, as far as strace -s let it through."""
    last_word_lines: tuple[int, ...] = ()
    """The lines of the log on which it wrote them."""
    open_for_writing: tuple[str, ...] = ()
    """Files that it had open for writing when it ended badly."""
    stopped: str | None = None
    """The signal that stopped it, where nothing in the log has made it go on since."""

    @property
    def process(self) -> int:
        """The pid of the process that it is of."""
        return self.thread_of or self.pid

    @property
    def program(self) -> str:
        """Its command line in short."""
        return "" if not self.argv else " ".join(self.argv[:4]) + (" …" if self.argv[4:] else "")


@record
class Match:
    """A call or signal that was asked for."""

    file: str
    line: int
    began_line: int | None
    """Where the call began, if on another line."""
    pid: int
    time: float | None
    syscall: str
    text: str
    errno: str | None
    fd: int | None
    target: Target
    task: Task
    """Who it was, as it was then; its end is not told here."""
    injected: bool
    inferred: bool
    """A SIGBUS: no call failed, but a page of a mapped file could not be had."""
    holders: tuple[tuple[str, int], ...] = ()
    """Of an EMFILE: what the process had open, and how often, the most first."""
    seconds: float | None = None
    """How long the call took, from -T or the stamps of its two lines."""
    arguments: tuple[str, ...] = ()
    """Each as strace wrote it."""
    returned: int | None = None
    """None where it did not return, or nobody saw it."""


@record
class FailedCalls:
    """All failures with one errno on one target."""

    errno: str
    target: Target
    matches: tuple[Match, ...]

    @property
    def first(self) -> Match:
        """The first of them."""
        return self.matches[0]

    @property
    def real(self) -> bool:
        """Whether at least one was not injected by strace itself."""
        return not all(match.injected for match in self.matches)

    @property
    def syscalls(self) -> tuple[str, ...]:
        """The calls, in the order in which they first failed."""
        return tuple(dict.fromkeys(match.syscall for match in self.matches))


@record
class Failures:
    """What failed, grouped; injected failures are in no group."""

    groups: tuple[FailedCalls, ...]

    def of(self, *errnos: str) -> tuple[FailedCalls, ...]:
        """Return the groups with one of these errno names."""
        return tuple(group for group in self.groups if group.errno in errnos)


@record
class SlowCall:
    """One of the calls that took longest."""

    match: Match
    seconds: float
    pace: str
    """``"work"`` (on files), ``"reading"`` (from a pipe or socket) or ``"waiting"``."""


@record
class SystemCalls:
    """A log, or the logs of one run."""

    name: str
    matches: tuple[Match, ...]
    match_count: int
    tasks: tuple[Task, ...]
    errors: tuple[syscall_totals.ErrorCount, ...]
    calls: tuple[syscall_totals.CallCount, ...]
    files: tuple[syscall_totals.FileCount, ...]
    libraries: frozenset[str]
    """Names, without folders, of shared libraries, and archives of them, that were opened."""
    recording: syscall_totals.Recording
    slow: tuple[SlowCall, ...] = ()
    connections: tuple[syscall_totals.Connection, ...] = ()
    timeouts: tuple[syscall_totals.Timeout, ...] = ()
    name_messages: tuple[syscall_totals.NameMessage, ...] = ()
    folders: tuple[syscall_totals.FolderCount, ...] = ()
    first_time: float | None = None
    last_time: float | None = None
    """Seconds since the epoch (-ttt), since midnight (-t, -tt), or since the first line (-r)."""

    def of_process(self, process: int | None) -> SystemCalls:
        """Return the log as if it were of one process and its threads; None: of all."""
        if process is None:
            return self
        tasks = tuple(task for task in self.tasks if process in (task.pid, task.thread_of))
        return replace(self, tasks=tasks)

    def seconds_to_end(self, since: float | None, end: float | None = None) -> float | None:
        """Return how long it is from a stamp to the end of the log, or to another stamp."""
        last = self.last_time if end is None else end
        if since is None or last is None:
            return None
        day = 86400.0
        if last < since - day / 2 and since <= day:
            last += day
        return max(0.0, last - since)
