"""What a system-call log adds up or lists of all its calls."""

from __future__ import annotations

from postmortem.records import record


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
    reads: int = 0
    writes: int = 0


@record
class Mount:
    """What was done below one prefix."""

    prefix: str
    files: int
    opens: int
    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    errors: int
    lookups: int
    lookup_errors: int


@record
class Connection:
    """A connection that a process made or took."""

    pid: int
    fd: int
    peer: str
    result: str
    """``"connected"``, ``"accepted"``, ``"interrupted"``, ``"timeout"``, an errno name;
    ``"EINPROGRESS"``: nobody asked what became of it."""
    file: str
    line: int
    seconds: float
    asked: bool = False
    """Something was sent since something came last."""
    silent_waits: int = 0
    """Waits that came back with nothing since something came last."""
    silent_seconds: float = 0.0
    silent_line: int = 0
    """The last of these waits."""
    silent_text: str = ""


@record
class NameMessage:
    """What a process sent to a name server, or got from it."""

    pid: int
    file: str
    line: int
    answer: bool
    data: str
    """The bytes as strace wrote them, with escapes, as far as strace -s let them through."""
    peer: str = ""
    """Whom the call itself names; that of a connected socket is known from its connect()."""


@record
class Timeout:
    """Waits for the same that came back with nothing: poll() and its likes, receives."""

    syscall: str
    target: str | None
    text: str
    count: int
    seconds: float
    file: str
    line: int
    pid: int


@record
class FolderCount:
    """Calls that looked something up in one folder."""

    path: str
    calls: int
    errors: int
    seconds: float
    first: float | None
    last: float | None


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
    """Whether anything can have been asked for through a ring, whose failures no log shows: one was
    entered, or the kernel polls it. A ring that was only set up hides nothing."""
    open_for_writing: tuple[str, ...]
    """With io_uring: files that were open for writing when the log ended."""
    times: bool = False
    durations: bool = False
    cut: bool = False
    """The log ends within a line."""
    detached: bool = False
    """strace let go of a task that still ran."""
    from_start: bool = True
    """The first call is the execve() of the program."""
    files: int = 1
    summed: bool = False
    """The clock is the sum of the stamps of -r: it begins at 0."""
    searched: bool = False
    """No word of what was asked for is in it: behind its beginning it was not parsed."""
