"""strace logs to facts: what was asked for, and what the log tells beside it."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from postmortem import _native
from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.facts.syscalls import (
    Blocked,
    CallCount,
    Ending,
    ErrorCount,
    FileCount,
    LogPlace,
    Match,
    Recording,
    SystemCalls,
    Target,
    Task,
)
from postmortem.readers.codecs import StreamError, decoded
from postmortem.readers.formats import HEAD_BYTES, compression_of
from postmortem.readers.stracefind import STANDARD_INPUT, LogGroup, likeness
from postmortem.records import record

if TYPE_CHECKING:
    from postmortem._native import (
        RawBlocked,
        RawCallPlace,
        RawCounts,
        RawMatch,
        RawStrace,
        RawTarget,
        RawTask,
    )

MOST_MATCHES = 5000
"""Hits that are kept with all they have; more are only counted."""

_MOST_THREADS = 4


@record
class Question:
    """What to look for in a log."""

    errors: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    statistics: bool = False
    """Count every call, error and byte: the whole log is parsed."""
    infer_sigbus: bool = False


@record
class StraceFacts:
    """One recording as read."""

    calls: SystemCalls
    sources: tuple[Source, ...]
    problems: tuple[Problem, ...]


class Watch(Protocol):
    """Is told of the files of a log while they are read."""

    def opened(self, descriptor: int, size: int | None) -> None:
        """A file was opened: how far it is read is where its descriptor stands."""


@record
class Beside:
    """What else is done in the same pass over a log."""

    exports: tuple[object, ...] = ()
    """Of `postmortem.readers.strace_exports`."""
    label: str = ""
    """What the exports call this recording, where there are several."""
    learn: Callable[[list[str]], object] | None = None
    """Is told of command lines, so that the exports mask what is secret in them."""
    watch: Watch | None = None


NOTHING = Beside()


def read_strace(group: LogGroup, question: Question, beside: Beside = NOTHING) -> StraceFacts:
    """Return the facts of one recording; raises EvidenceError when it is no strace log."""
    with contextlib.ExitStack() as stack:
        opened = [_Opened(name, stack, beside.watch) for name, _ in group.files]
        try:
            raw = _native.read_strace(
                [(log.source, pid) for log, (_, pid) in zip(opened, group.files, strict=True)],
                errors=list(question.errors),
                calls=list(question.calls),
                signals=list(question.signals),
                statistics=question.statistics,
                infer_sigbus=question.infer_sigbus,
                threads=min(_MOST_THREADS, len(os.sched_getaffinity(0))),
                most_matches=MOST_MATCHES,
                exports=list(beside.exports),
                label=beside.label,
                learn=beside.learn,
                names=[name for name, _ in group.files],
            )
        except EvidenceError as error:
            raise EvidenceError(group.name, error.what, hint=error.hint) from error
    _require_log(group, raw, opened)
    names = tuple(name for name, _ in group.files)
    problems = [problem for log in opened for problem in log.problems]
    problems += _remarks(group, raw)
    sources = tuple(log.as_source(size) for log, size in zip(opened, raw["bytes"], strict=True))
    return StraceFacts(_calls(group, names, raw), sources, tuple(problems))


class _Opened:
    """One file while it is read: a descriptor, or pieces of what it unpacks to."""

    def __init__(self, name: str, stack: contextlib.ExitStack, watch: Watch | None = None) -> None:
        self.name = name
        self.problems: list[Problem] = []
        self.compression: str | None = None
        stream = _standard_input(name) if name == STANDARD_INPUT else _open(name)
        stack.enter_context(stream)
        status = os.fstat(stream.fileno())
        self._size = status.st_size if stat.S_ISREG(status.st_mode) else None
        if watch is not None:
            watch.opened(stream.fileno(), self._size)
        if self._size is None:
            stream = cast(BinaryIO, _Patient(stream))
        self.head = stream.read(HEAD_BYTES)
        self.compression = compression_of(self.head)
        self.source: int | Callable[[], bytes]
        if self.compression is not None:
            packed = cast(BinaryIO, _Joined(self.head, stream))
            self.head = b""
            self.source = self._pieces(packed, self.compression)
        elif self._size is not None and stream.seekable():
            stream.seek(0)
            self.source = stream.fileno()
        else:
            self.source = self._stream(stream)

    def _stream(self, stream: BinaryIO) -> Callable[[], bytes]:
        pieces = _chain(self.head, stream)
        return lambda: next(pieces, b"")

    def _pieces(self, stream: BinaryIO, compression: str) -> Callable[[], bytes]:
        pieces = decoded(stream, compression)

        def next_piece() -> bytes:
            try:
                piece = next(pieces, b"")
            except StreamError as error:
                remedy = "copy the log again if the original is whole"
                self.problems.append(
                    Problem(self.name, f"{error}; what came before is used", remedy)
                )
                return b""
            if not self.head:
                self.head = piece[:HEAD_BYTES]
            return piece

        return next_piece

    def as_source(self, unpacked: int) -> Source:
        size = unpacked if self._size is None else self._size
        return Source(self.name, size, self.compression, truncated=bool(self.problems))


class _Patient(io.RawIOBase):
    """A pipe that may have nothing to read for long: Ctrl-C ends the wait in any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._descriptor = stream.fileno()

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes as asked for; of a large piece what is there, nothing at the end."""
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        pieces: list[bytes] = []
        left = size if size >= 0 else 1 << 20
        while left > 0:
            while not waiting.poll(200):
                if _native.interrupt_seen():
                    raise KeyboardInterrupt
            piece = os.read(self._descriptor, left)
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
            if size > HEAD_BYTES and not waiting.poll(0):
                break
        return b"".join(pieces)


class _Joined(io.RawIOBase):
    """A stream with what was read of it put back."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            return self._stream.read(size)
        piece, self._head = (
            (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
        )
        return piece


def _chain(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    if head:
        yield head
    while piece := stream.read(1 << 20):
        yield piece


def _standard_input(name: str) -> BinaryIO:
    if sys.stdin is None:
        raise EvidenceError("standard input", "is closed")
    return os.fdopen(os.dup(sys.stdin.fileno()), "rb")


def _open(name: str) -> BinaryIO:
    try:
        return open(name, "rb")  # noqa: PTH123  the caller's stack closes it
    except OSError as error:
        what = {
            errno.ENOENT: "no such file",
            errno.EACCES: "no permission to read it",
            errno.EISDIR: "is a directory",
        }.get(error.errno or 0, f"cannot be opened: {error.strerror}")
        raise EvidenceError(name, what) from error


def _require_log(group: LogGroup, raw: RawStrace, opened: list[_Opened]) -> None:
    counts = raw["counts"]
    found = counts["calls"] + counts["signals"] + counts["exits"]
    if counts["summary"] and not found:
        what = "holds only the table of strace -c: no single call is in it"
        raise EvidenceError(group.name, what, hint="record without -c, or with -C for both")
    if found and 2 * found + counts["remarks"] + counts["output"] >= counts["unparsed"]:
        return
    head = next((log.head for log in opened if log.head), b"")
    what = f"is no strace log: it looks like {likeness(head)}"
    if not head:
        what = "is empty: strace wrote nothing, or was not started"
    raise EvidenceError(group.name, what, hint="record one: strace -f -o strace.txt COMMAND")


def _remarks(group: LogGroup, raw: RawStrace) -> Iterator[Problem]:
    counts = raw["counts"]
    if counts["unparsed"]:
        where = f"{group.files[raw['first_unparsed_file']][0]}:{raw['first_unparsed_line']}"
        what = f"{counts['unparsed']:,} of {counts['lines']:,} lines were not understood"
        text = (raw["first_unparsed"] or "")[:80]
        yield Problem(where, f"{what}; the first: {text!r}" if text else what)
    if raw["cut_lines"]:
        yield Problem(group.name, f"{raw['cut_lines']} lines over 32 MiB were read in part")
    if raw["forgotten"]:
        what = (
            f"{raw['forgotten']:,} processes that ended with 0 are not listed: there are too many"
        )
        yield Problem(group.name, what)
    if raw["match_count"] > len(raw["matches"]):
        what = f"{raw['match_count']:,} hits; the first {len(raw['matches']):,} are listed"
        yield Problem(group.name, what)
    if raw["check"]["wrong"]:
        what = (
            f"{raw['check']['wrong']} descriptors are annotated (-y) as something else than the "
            f"calls before say: {raw['check']['examples'][0]}; the annotation is used"
        )
        yield Problem(group.name, what)
    if len(group.files) > 1 and not raw["by_time"]:
        what = "files of strace -ff without times: what threads share may be out of order"
        yield Problem(group.name, what, "record with -ff -ttt, or with -f into one file")


def _calls(group: LogGroup, names: tuple[str, ...], raw: RawStrace) -> SystemCalls:
    tasks = tuple(_task(row, names) for row in raw["processes"])
    timed = any(row["nanoseconds"] for row in raw["syscalls"])
    counts = raw["counts"]
    return SystemCalls(
        name=group.name,
        matches=tuple(_match(row, names) for row in raw["matches"]),
        match_count=raw["match_count"],
        tasks=tasks,
        errors=tuple(
            ErrorCount(
                row["errno"],
                row["syscall"],
                row["path"],
                row["kind"],
                row["count"],
                row["injected"],
                names[row["file"]],
                row["line"],
                row["pid"],
            )
            for row in raw["failures"]
        ),
        calls=tuple(
            CallCount(
                row["name"],
                row["calls"],
                row["errors"],
                row["nanoseconds"] / 1e9 if timed else None,
            )
            for row in raw["syscalls"]
        ),
        files=tuple(FileCount(*row) for row in raw["files"]),
        libraries=frozenset(raw["libraries"]),
        recording=Recording(
            lines=counts["lines"],
            unparsed=counts["unparsed"],
            calls=counts["calls"],
            first_unparsed=raw["first_unparsed"],
            options=_options(counts, len(group.files) > 1),
            opens=raw["opens"],
            io_uring=raw["io_uring"],
            open_for_writing=tuple(raw["open_for_writing"]),
        ),
    )


def _options(counts: RawCounts, many: bool) -> tuple[str, ...]:
    """Return the options of strace that the log shows."""
    options = []
    if many:
        options.append("-ff")
    elif counts["pids"]:
        options.append("-f")
    if counts["times"]:
        options.append("-ttt" if counts["epochs"] else "-tt")
    if counts["relative"]:
        options.append("-r")
    if counts["annotations"]:
        options.append("-y")
    if counts["traces"]:
        options.append("-k")
    if counts["colors"]:
        options.append("--color")
    return tuple(options)


def _match(row: RawMatch, names: tuple[str, ...]) -> Match:
    return Match(
        file=names[row["file"]],
        line=row["line"],
        began_line=row["entry_line"],
        pid=row["pid"],
        time=row["time"],
        syscall=row["syscall"],
        text=row["text"],
        errno=row["errno"],
        fd=row["fd"],
        target=_target(row["target"], names),
        task=Task(
            row["pid"],
            row["ppid"],
            row["thread_of"],
            None if row["argv"] is None else tuple(row["argv"]),
            None,
            None,
        ),
        injected=row["injected"],
        inferred=row["inferred"],
    )


def _target(row: RawTarget, names: tuple[str, ...]) -> Target:
    return Target(
        path=row["path"],
        kind=row["kind"],
        source=row["source"],
        deleted=row["deleted"],
        nameless=row["nameless"],
        guessed=row["guessed"],
        opened=_place(row["opened"], names),
        given=_place(row["given"], names),
        flags=row["flags"],
        label=row["label"],
        written_bytes=row["written_bytes"],
        read_bytes=row["read_bytes"],
    )


def _place(row: RawCallPlace | None, names: tuple[str, ...]) -> LogPlace | None:
    if row is None:
        return None
    return LogPlace(names[row["file"]], row["line"], row["pid"], row["syscall"])


def _task(row: RawTask, names: tuple[str, ...]) -> Task:
    end = row["exit"]
    return Task(
        pid=row["pid"],
        ppid=row["ppid"],
        thread_of=row["thread_of"],
        argv=None if row["argv"] is None else tuple(row["argv"]),
        ending=None
        if end is None
        else Ending(
            names[end["file"]], end["line"], end["code"], end["signal"], end["core"], end["sender"]
        ),
        blocked=_blocked(row["blocked_in"], names),
    )


def _blocked(row: RawBlocked | None, names: tuple[str, ...]) -> Blocked | None:
    if row is None:
        return None
    target = None if row["target"] is None else _target(row["target"], names)
    return Blocked(names[row["file"]], row["line"], row["syscall"], row["text"], target)
