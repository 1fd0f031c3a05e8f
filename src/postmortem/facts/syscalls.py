"""What a system-call log says: failed calls and what they were about, tasks, totals."""

from __future__ import annotations

from postmortem.records import record


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
    sender: int | None = None
    """The process that sent the signal, where the log shows it."""


@record
class Blocked:
    """The call in which a task was when it or the log ended."""

    file: str
    line: int
    syscall: str
    text: str
    target: Target | None


@record
class Task:
    """One task from start to end."""

    pid: int
    ppid: int | None
    thread_of: int | None
    argv: tuple[str, ...] | None
    ending: Ending | None
    blocked: Blocked | None

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
class ErrorCount:
    """How often one call failed with one errno on one path."""

    errno: str
    syscall: str
    path: str | None
    kind: str
    count: int
    injected: int
    file: str
    line: int
    pid: int


@record
class CallCount:
    """How often a system call was made."""

    name: str
    calls: int
    errors: int
    seconds: float | None


@record
class FileCount:
    """What happened to one file."""

    path: str
    opens: int
    read_bytes: int
    written_bytes: int
    errors: int


@record
class Recording:
    """What the log says of how it was made, and how much of it could be read."""

    lines: int
    unparsed: int
    calls: int
    first_unparsed: str | None
    options: tuple[str, ...]
    opens: int
    """Calls that opened something: without any, descriptors cannot be resolved."""
    io_uring: bool
    open_for_writing: tuple[str, ...]
    """With io_uring: files that were open for writing when the log ended."""


@record
class SystemCalls:
    """A log, or the logs of one run."""

    name: str
    matches: tuple[Match, ...]
    match_count: int
    tasks: tuple[Task, ...]
    errors: tuple[ErrorCount, ...]
    calls: tuple[CallCount, ...]
    files: tuple[FileCount, ...]
    libraries: frozenset[str]
    """Names, without folders, of shared libraries that were opened."""
    recording: Recording
