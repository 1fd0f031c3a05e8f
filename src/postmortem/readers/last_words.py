"""Finds known lines among what processes wrote on standard error near the end of a strace log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from postmortem.facts.last_words import LastWords, Spoken
from postmortem.patterns import Pattern
from postmortem.readers.formats import compression_of
from postmortem.readers.signatures import Signatures

TAIL_BYTES = 32 << 20
"""Of each log: a process says why it ends when it does. 50 ms."""
EACH = 20

_PIECE = 1 << 20
_WRITE = Pattern(
    r"^(?:\[pid\s+(?P<bracket>\d+)\] |(?P<pid>\d+) |\S+<(?P<decoded>\d+)> )?[^\"]*?"
    r"\bwritev?\(2(?:<[^>]*>)?, (?:\[\{iov_base=)?\"(?P<text>.*?)(?:\"(?:\.\.\.)?[,}]|$)"
)


def read_last_words(files: Iterable[tuple[str, int]]) -> LastWords:
    """Return the known lines of logs, each with the task that it is of (else 0).

    Packed logs, pipes and what cannot be read again are left out.
    """
    spoken: list[Spoken] = []
    for path, task in files:
        try:
            with open(path, "rb") as stream:  # noqa: PTH123  a path may hold any bytes
                if stream.seekable() and compression_of(stream.read(16)) is None:
                    spoken += _of_stream(path, stream, task)
        except OSError:  # it has been read: whoever did tells of what is wrong with it
            continue
    return LastWords(tuple(spoken))


def _of_stream(path: str, stream: BinaryIO, task: int) -> list[Spoken]:
    size = stream.seek(0, 2)
    start = max(0, size - TAIL_BYTES)
    stream.seek(start)
    tail = stream.read(TAIL_BYTES)
    found = []
    for hit in Signatures.load().find(tail, each=EACH):
        call = _WRITE.match(hit.text)
        if call is not None:
            pid = call["bracket"] or call["pid"] or call["decoded"]
            text = call["text"].removesuffix("\\n")
            found.append(Spoken(hit.id, path, hit.line_number, int(pid) if pid else task, text))
    if not found or start == 0:
        return found
    before = _line_ends(stream, start)
    return [Spoken(s.signature, s.file, s.line + before, s.pid, s.text) for s in found]


def _line_ends(stream: BinaryIO, end: int) -> int:
    stream.seek(0)
    count = 0
    left = end
    while left > 0 and (piece := stream.read(min(_PIECE, left))):
        count += piece.count(b"\n")
        left -= len(piece)
    return count
