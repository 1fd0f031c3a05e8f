"""The beginning of a log: unpacked, and without the zero bytes that a file may have in it.

A log has zeros where it was cut to nothing while its writer kept its place (copytruncate), where
power failed before its text was on the disk, and where a program printed the end of a C string.
"""

import codecs
import errno
import os
from collections.abc import Generator, Iterator
from functools import partial
from typing import BinaryIO

from postmortem.readers.codecs import StreamError, beginning
from postmortem.readers.formats import HEAD_BYTES, compression_of
from postmortem.readers.regular import open_regular, size_of
from postmortem.readers.signatures import blocks_of

_LOOKED_FOR = 64 << 20
"""Bytes of zeros behind which the text of a file is looked for."""
_TEXT_CONTROLS = bytes(range(7, 14)) + b"\x1b"
_OTHER_CONTROLS = bytes(c for c in (*range(0x20), 0x7F) if c not in _TEXT_CONTROLS)
_MOST_OTHERS = 100
"""A text has fewer characters of no text than one in so many."""


def open_plain(path: str) -> BinaryIO | None:
    """Open a log for reading; None for one that is packed. Raises OSError."""
    stream = open_regular(path)
    if compression_of(stream.read(HEAD_BYTES)) is None:
        stream.seek(0)
        return stream
    stream.close()
    return None


def numbered_lines(path: str, *, most: int, longest: int = -1) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a log that is read once more; none where it is packed, too large or gone.

    What is longer than `longest` comes in pieces.
    """
    try:
        stream = open_plain(path) if 0 < size_of(path) <= most else None
        if stream is not None:
            with stream:
                number = 1
                for line in iter(partial(stream.readline, longest), b""):
                    yield number, line
                    number += line.endswith(b"\n")
    except OSError:
        return


def plain_pieces(path: str) -> Generator[bytes, None, None]:
    """Yield the bytes of a log, unpacked, up to where a packed one is damaged. Raises OSError."""
    with open_regular(path) as stream:
        yield from blocks_of(stream)


def text_head(path: str) -> bytes:
    """Return the first bytes of a file's text, at most `HEAD_BYTES`; raises OSError, StreamError.

    Of a packed file it is what it unpacks to; of what is no text some bytes of it.
    """
    with open_regular(path) as stream:
        head, packed = beginning(stream)
        if packed is None and head and not head.strip(b"\0"):
            head = _behind_zeros(stream)
    head = in_utf_8(head)
    return head if looks_like_binary(head) else head.replace(b"\0", b"")


def known_head(path: str) -> bytes:
    """Return the first bytes of a file's text; nothing where it cannot be read."""
    try:
        return text_head(path)
    except (OSError, StreamError):
        return b""


def in_utf_8(text: bytes) -> bytes:
    """Return a text of PowerShell's, which is in UTF-16 behind a mark, as others have it."""
    marked = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    # Else the mark stands before bytes.
    return text.decode("utf-16", "replace").encode() if marked and b"\0" in text else text


def looks_like_binary(head: bytes) -> bool:
    """Return whether bytes with zeros among them are no text, even without these."""
    if b"\0" not in head:
        return False
    text = head.replace(b"\0", b"")
    others = len(text) - len(text.translate(None, _OTHER_CONTROLS))
    undecoded = len(text) - len(text.decode("utf-8", "ignore").encode())
    return not text or (others + undecoded) * _MOST_OTHERS > len(text)


def _behind_zeros(stream: BinaryIO) -> bytes:
    """Return what stands behind the zeros that a file begins with; nothing if that is too far."""
    descriptor = stream.fileno()
    passed = 0
    while passed < _LOOKED_FOR:
        piece = stream.read(1 << 20)
        if not piece:
            return b""
        rest = piece.lstrip(b"\0")
        if rest:
            return rest[:HEAD_BYTES]
        passed += len(piece)
        try:
            stream.seek(os.lseek(descriptor, stream.tell(), os.SEEK_DATA))
        except OSError as error:
            if error.errno == errno.ENXIO:  # the rest is one hole
                return b""
    return b""
