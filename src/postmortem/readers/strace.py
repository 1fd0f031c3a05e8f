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
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from postmortem import _native
from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.facts.syscalls import SystemCalls
from postmortem.readers.codecs import StreamError, decoded
from postmortem.readers.formats import HEAD_BYTES, compression_of
from postmortem.readers.stracefind import STANDARD_INPUT, LogGroup, is_ltrace, likeness
from postmortem.readers.stracerows import calls_of
from postmortem.records import record

if TYPE_CHECKING:
    from postmortem._native import RawQuery, RawStrace

MOST_MATCHES = 5000
"""Hits that are kept with all they have; more are only counted."""

MOST_OF_ONE = 400
"""Hits with one errno of one call that are kept when many are asked for at once."""

_MOST_THREADS = 4
_FIFO_MILLISECONDS = 5000


@record
class CallQuery:
    """Calls to look for: all that is set must hold; of a list one is enough."""

    errors: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    pid: int | None = None
    fd: int | None = None
    path: str | None = None
    """A pattern in which ``*`` stands for ``/`` too."""
    slower: float = 0.0
    """Seconds."""

    def raw(self) -> RawQuery:
        """Return it as the native reader takes it."""
        return {
            "errors": list(self.errors),
            "calls": list(self.calls),
            "pid": self.pid,
            "fd": self.fd,
            "path": self.path,
            "slower": round(self.slower * 1e9),
        }


@record
class Question:
    """What to look for in a log."""

    queries: tuple[CallQuery, ...] = ()
    signals: tuple[str, ...] = ()
    statistics: bool = False
    """Count every call, error and byte: the whole log is parsed."""
    infer_sigbus: bool = False
    process: int | None = None
    """Hits and totals of this process and its threads alone."""


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
                queries=[query.raw() for query in question.queries],
                signals=list(question.signals),
                statistics=question.statistics,
                infer_sigbus=question.infer_sigbus,
                threads=min(_MOST_THREADS, len(os.sched_getaffinity(0))),
                most_matches=MOST_MATCHES,
                most_of_one=MOST_OF_ONE if question.statistics else MOST_MATCHES,
                only=question.process or 0,
                exports=list(beside.exports),
                label=beside.label,
                learn=beside.learn,
                names=[name for name, _ in group.files],
            )
        except EvidenceError as error:
            raise EvidenceError(group.name, error.what, hint=error.hint) from error
    _require_log(group, raw, opened)
    problems = [problem for log in opened for problem in log.problems]
    problems += _remarks(group, raw)
    for log, size in zip(opened, raw["bytes"], strict=True):
        problems += log.shrunk(size)
    sources = tuple(log.as_source(size) for log, size in zip(opened, raw["bytes"], strict=True))
    head = opened[0].head if opened else b""
    return StraceFacts(calls_of(group, raw, head), sources, tuple(problems))


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

    def shrunk(self, read: int) -> list[Problem]:
        """Return a problem if the file got shorter while it was read."""
        if self._size is None or self.compression is not None or read >= self._size:
            return []
        what = f"got shorter while it was read: {read:,} of {self._size:,} bytes were there"
        return [Problem(self.name, what, "read it again when nobody writes to it any more")]

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
        if Path(name).is_fifo():
            return _open_fifo(name)
        return open(name, "rb")  # noqa: PTH123  the caller's stack closes it
    except OSError as error:
        what = {
            errno.ENOENT: "no such file",
            errno.EACCES: "no permission to read it",
            errno.EISDIR: "is a directory",
        }.get(error.errno or 0, f"cannot be opened: {error.strerror}")
        raise EvidenceError(name, what) from error


def _open_fifo(name: str) -> BinaryIO:
    """Open a named pipe; raises EvidenceError where nobody writes to it: open() would wait."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(_FIFO_MILLISECONDS):
        os.close(descriptor)
        what = f"is a named pipe that nobody wrote to for {_FIFO_MILLISECONDS / 1000:g} s"
        raise EvidenceError(name, what, hint="begin to write first, or pipe the log in: … | -")
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")


def _require_log(group: LogGroup, raw: RawStrace, opened: list[_Opened]) -> None:
    counts = raw["counts"]
    found = counts["calls"] + counts["signals"] + counts["exits"]
    if counts["summary"] and not found:
        what = "holds only the table of strace -c: no single call is in it"
        raise EvidenceError(group.name, what, hint="record without -c, or with -C for both")
    head = next((log.head for log in opened if log.head), b"")
    understood = found and not is_ltrace(head)
    if understood and 2 * found + counts["remarks"] + counts["output"] >= counts["unparsed"]:
        return
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
    if raw["match_count"] > len(raw["matches"]) and not raw["syscalls"]:
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
