"""Kind ``strace``: recordings of system calls."""

from __future__ import annotations

from typing import Literal

from postmortem.report.contract import Shape
from postmortem.report.contract.envelope import Problem


class Place(Shape):
    line: int
    pid: int
    syscall: str
    file: str


class Target(Shape):
    path: str | None
    """a file's path, a socket's peer"""
    kind: Literal["file", "socket", "pipe", "memfd", "device", "other", "unknown"]
    deleted: bool
    nameless: bool
    """opened with O_TMPFILE: `path` is the folder that it is in"""
    source: Literal["tracked", "annotated", "argument", "unknown"]
    """`annotated`: by strace -y"""
    guessed: bool
    """paired by order alone"""
    opened: Place | None
    given: Place | None
    """the call that gave this number"""
    flags: str | None
    written_bytes: int
    read_bytes: int


class Process(Shape):
    pid: int
    argv: list[str] | None
    ppid: int | None
    thread_of: int | None
    rank: int | None
    local_rank: int | None


class Match(Shape):
    file: str
    line: int
    """of the log"""
    began_line: int | None
    pid: int
    time: float | None
    """seconds since the epoch (-ttt) or since midnight (-t, -tt)"""
    syscall: str
    """the call, or the signal"""
    text: str
    errno: str | None
    fd: int | None
    injected: bool
    """strace made it fail"""
    seconds: float | None
    inferred: bool
    """a SIGBUS on a mapped file: no call failed"""
    target: Target
    process: Process


class Find(Shape):
    query: str
    matches: list[Match]


class Exit(Shape):
    code: int | None
    signal: str | None
    core: bool
    line: int
    sender_pid: int | None
    time: float | None
    told: bool
    """false where only its call to exit() is in the log (-qq)"""


class Holder(Shape):
    pid: int
    fd: int


class Awaited(Shape):
    fd: int
    target: Target
    other_end_known: bool
    holders: list[Holder]
    """of the other end of a pipe or connection"""
    holder_count: int


class Futex(Shape):
    woken_by: int | None
    woken_line: int
    passed_by: int | None
    """who was let in last, and may hold it"""
    passed_line: int


class Blocked(Shape):
    line: int
    syscall: str
    text: str
    target: Target | None
    since: float | None
    seconds: float | None
    """to its end or the log's"""
    awaited: list[Awaited]
    """each descriptor"""
    futex: Futex | None


class Interruption(Shape):
    signal: str
    sender_pid: int | None
    line: int
    pid: int
    syscall: str | None
    """the call that it got it out of"""
    target: str | None
    seconds: float | None


class Task(Shape):
    pid: int
    ppid: int | None
    thread_of: int | None
    argv: list[str] | None
    exit: Exit | None
    blocked_in: Blocked | None
    rank: int | None
    """of its environment or arguments"""
    local_rank: int | None
    began: float | None
    recorded: bool
    """false: the log has no line of it"""
    calls: int
    seconds: float | None
    seconds_by_call: dict[str, float]
    last_words: list[str]
    """what it wrote to descriptor 2"""
    open_for_writing: list[str]
    """files, when it ended badly"""
    interruptions: list[Interruption]
    """signals from elsewhere that asked it to end, or its own timer's that did"""


class ErrorCount(Shape):
    errno: str
    syscall: str
    count: int


class CallCount(Shape):
    name: str
    calls: int
    errors: int
    seconds: float | None


class FileCount(Shape):
    path: str
    opens: int
    read_bytes: int
    written_bytes: int
    errors: int
    reads: int
    writes: int


class Socket(Shape):
    pid: int
    fd: int | None
    peer: str
    result: str
    """`connected`, `accepted`, an errno name, `timeout …`"""
    line: int
    seconds: float | None
    waits_in_vain: int
    """that ran out since something last came"""


class Mount(Shape):
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


class Storm(Shape):
    folder: str
    calls: int
    errors: int
    folders: int
    seconds: float | None
    calls_per_second: float | None
    seconds_in_calls: float | None


class SlowCall(Shape):
    seconds: float
    kind: Literal["work", "reading", "waiting"]
    """`work` on files, `reading` from pipes and sockets"""
    file: str
    line: int
    began_line: int | None
    pid: int
    syscall: str
    text: str
    path: str | None
    errno: str | None


class Timeout(Shape):
    syscall: str
    target: str | None
    text: str
    count: int
    seconds: float | None
    line: int
    pid: int


class Waiting(Shape):
    pids: list[int]
    syscall: str
    line: int
    seconds: float | None
    for_: str


class LastFailure(Shape):
    errno: str
    syscall: str
    path: str | None
    line: int
    pid: int


class LastFailures(Shape):
    pid: int
    failures: list[LastFailure]


class MissingLibrary(Shape):
    name: str
    searched: list[str]


class Recording(Shape):
    name: str
    lines: int
    unparsed_lines: int
    options: list[str]
    io_uring: bool
    first_time: float | None
    last_time: float | None
    from_start: bool
    """the first call is the execve() of the program"""


class Summary(Shape):
    """What is counted where nothing is asked for."""

    sockets: list[Socket] | None
    """connections made and taken"""
    mounts: list[Mount] | None
    """`files` by mount or top folder; the log does not say what is mounted where"""
    metadata_storms: list[Storm] | None
    """folders with a thousand look-ups or more below them"""
    slow_calls: list[SlowCall] | None
    """the longest calls"""
    timeouts: list[Timeout] | None
    """waits that came back with nothing, though no call failed"""
    waits: list[Waiting] | None
    """who waited for what when they or the log ended, grouped"""
    last_failures: list[LastFailures] | None
    """for processes that exited with an error: what failed last, without what is harmless"""
    remarks: list[Problem] | None
    """what the options of the recording hide, beside what stands under `problems`"""


class Totals(Shape):
    finds: list[Find]
    """for each `--find`"""
    processes: list[Task]
    """each task"""
    errors: list[ErrorCount] | None
    """null with `--find`, which does not count them, as are all down to `missing_libraries`"""
    syscalls: list[CallCount] | None
    files: list[FileCount] | None


class End(Shape):
    missing_libraries: list[MissingLibrary] | None
    lines: int
    unparsed_lines: int
    """lines that were not understood"""
    recordings: list[Recording]


class Strace(End, Summary, Totals):
    pass
