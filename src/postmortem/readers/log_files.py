"""A log while it is read: a file, packed or not, a pipe, standard input."""

import contextlib
import errno
import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from postmortem import _native, underway
from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.readers.codecs import StreamError, decoded
from postmortem.readers.formats import HEAD_BYTES, compression_of
from postmortem.readers.regular import open_regular, unread

STANDARD_INPUT = "-"

_FIFO_MILLISECONDS = 5000


class Watch(Protocol):
    """Is told of the files of a log while they are read."""

    def opened(self, descriptor: int, size: int | None) -> None:
        """A file was opened: how far it is read is where its descriptor stands."""


class OpenedLog:
    """One file while it is read: a descriptor, or pieces of what it unpacks to."""

    def __init__(self, name: str, stack: contextlib.ExitStack, watch: Watch | None = None) -> None:
        self.name = name
        self.problems: list[Problem] = []
        self.compression: str | None = None
        stream = _standard_input() if name == STANDARD_INPUT else _open(name)
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

    @property
    def plain_size(self) -> int | None:
        """Bytes of a file that can be read at any place; None of a packed log and of a stream."""
        return self._size if isinstance(self.source, int) else None

    @property
    def is_hole(self) -> bool:
        """Whether a file has a size, and nothing was ever written to it."""
        if not isinstance(self.source, int) or not self._size:
            return False
        try:
            os.lseek(self.source, 0, os.SEEK_DATA)
            os.lseek(self.source, 0, os.SEEK_SET)
        except OSError as error:
            return error.errno == errno.ENXIO
        return False

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


def keep_standard_input() -> None:
    """Have what is piped in stand in a file without a name: a log is looked at more than once."""
    with _standard_input() as stream:
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return
        import tempfile

        try:
            with tempfile.TemporaryFile() as kept:
                for piece in _chain(b"", cast(BinaryIO, _Patient(stream))):
                    kept.write(piece)
                kept.flush()
                os.dup2(kept.fileno(), sys.stdin.fileno())
        except OSError as error:
            what = f"cannot be kept: {error.strerror}"
            raise EvidenceError("standard input", what, hint="write it to a file first") from error


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise EvidenceError("standard input", "is closed")
    underway.consuming()
    stream = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    if stream.seekable():  # its place is that of all who read it
        stream.seek(0)
    return stream


def _open(name: str) -> BinaryIO:
    try:
        if Path(name).is_fifo():
            return open_fifo(name)
        return open_regular(name)  # the caller's stack closes it
    except OSError as error:
        raise EvidenceError(name, unread(error)) from error


def open_fifo(name: str) -> BinaryIO:
    """Open a named pipe; raises EvidenceError where nobody writes to it: open() would wait."""
    underway.consuming()
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(_FIFO_MILLISECONDS):
        os.close(descriptor)
        what = f"is a named pipe that nobody wrote to for {_FIFO_MILLISECONDS / 1000:g} s"
        raise EvidenceError(name, what, hint="begin to write first, or pipe it in: … | -")
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")
