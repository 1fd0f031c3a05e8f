"""Single lines of a large file by their number."""

import os
from bisect import bisect_left
from collections.abc import Iterator
from typing import BinaryIO

from postmortem.errors import EvidenceError
from postmortem.readers.codecs import StreamError, decoded
from postmortem.readers.formats import HEAD_BYTES, compression_of
from postmortem.readers.regular import open_regular

_PIECE = 1 << 20
_MOST_FILES = 64
"""Files whose lines are kept in mind: 16 bytes for each megabyte."""

# Path, size and time of change of a file → of each of its pieces, the number of its first line.
_firsts: dict[tuple[str, int, int], list[int]] = {}


def log_line(name: str, number: int) -> str:
    """Return line `number`, from 1, of a file that may be packed; nothing if it has fewer lines.

    Raises EvidenceError when the file cannot be read any more.
    """
    try:
        with open_regular(name) as stream:
            compression = compression_of(stream.read(HEAD_BYTES))
            stream.seek(0)
            if compression is not None:
                return _text(_pick(_unpacked(stream, compression), number, 1))
            firsts = _first_lines(name, stream)
            piece = max(0, bisect_left(firsts, number) - 1)
            stream.seek(piece * _PIECE)
            return _text(_pick(_pieces(stream), number, firsts[piece]))
    except OSError as error:
        raise EvidenceError(name, f"cannot be read again: {error.strerror or error}") from error


def _first_lines(name: str, stream: BinaryIO) -> list[int]:
    """Return of each piece the number of the line that starts first in it, or goes on into it."""
    status = os.fstat(stream.fileno())
    key = (name, status.st_size, status.st_mtime_ns)
    known = _firsts.get(key)
    if known is None:
        known = [1]
        for piece in _pieces(stream):
            known.append(known[-1] + piece.count(b"\n"))
        if len(_firsts) >= _MOST_FILES:
            _firsts.clear()
        _firsts[key] = known
    return known


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        yield piece


def _unpacked(stream: BinaryIO, compression: str) -> Iterator[bytes]:
    try:
        yield from decoded(stream, compression)
    except StreamError:  # the reader has told of it
        return


def _pick(pieces: Iterator[bytes], number: int, first: int) -> bytes:
    """Return line `number` of pieces, in the first of which line `first` begins or goes on."""
    found: list[bytes] = []
    for piece in pieces:
        count = piece.count(b"\n")
        if first + count < number:
            first += count
            continue
        at = 0
        for _ in range(number - first):
            at = piece.index(b"\n", at) + 1
        end = piece.find(b"\n", at)
        found.append(piece[at:] if end < 0 else piece[at:end])
        if end >= 0:
            break
        first = number  # it goes on in the next piece
    return b"".join(found)


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "surrogateescape")
