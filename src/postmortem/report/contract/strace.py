"""Kind ``strace``: recordings of system calls."""

from __future__ import annotations

from typing import Literal

from postmortem.facts import syscall_totals, syscalls
from postmortem.facts.source import Problem
from postmortem.facts.syscall_totals import CallCount, FileCount, Mount
from postmortem.report.contract import Shape


class Target(Shape, of=syscalls.Target, without=("label",)):
    kind: Literal["file", "socket", "pipe", "memfd", "device", "other", "unknown"]
    source: Literal["tracked", "annotated", "argument", "unknown"]
    """`annotated`: by strace -y"""
    flags: str | None


class Process(Shape):
    pid: int
    argv: list[str] | None
    ppid: int | None
    thread_of: int | None
    rank: int | None
    local_rank: int | None


class Match(Shape, of=syscalls.Match, without=("task", "holders", "arguments", "returned")):
    target: Target
    process: Process


class Find(Shape):
    query: str
    matches: list[Match]


class Exit(Shape, of=syscalls.Ending, without=("file",)):
    pass


class Awaited(Shape, of=syscalls.Awaited):
    target: Target


class Blocked(Shape, of=syscalls.Blocked, without=("file", "arguments", "returned")):
    target: Target | None
    seconds: float | None
    """to its end or the log's"""
    awaited: list[Awaited]
    """each descriptor"""


class Interruption(Shape, of=syscalls.Interruption, without=("file",)):
    seconds: float | None


_NOT_TOLD = ("ending", "blocked", "last_failures", "last_word_lines", "stopped")


class Task(Shape, of=syscalls.Task, without=_NOT_TOLD):
    exit: Exit | None
    blocked_in: Blocked | None
    calls: int
    seconds: float | None
    seconds_by_call: dict[str, float]
    interruptions: list[Interruption]
    """signals from elsewhere that asked it to end, or its own timer's that did"""


class ErrorCount(Shape):
    errno: str
    syscall: str
    count: int


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


class Timeout(Shape, of=syscall_totals.Timeout, without=("file",)):
    seconds: float | None


class Waiting(Shape):
    pids: list[int]
    syscall: str
    line: int
    seconds: float | None
    for_: str


class LastFailure(Shape, of=syscalls.LastFailure, without=("file", "direct")):
    pass


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
