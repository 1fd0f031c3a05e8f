"""Where the last run of a file begins that several runs were appended to.

A run begins as the file does: lines of its head come again, behind the end of the run before, and
later by the clock. Logs of several ranks that were put one behind the other do not go on in time.
"""

from collections.abc import Iterator

from postmortem.patterns import Pattern
from postmortem.readers.signatures import Signatures

MOST_BYTES = 64 << 20
_HEAD_LINES = 64
_SHORTEST = 20
_MOST_HEADS = 16
_MOST_STARTS = 256
"""A line that comes more often is none of a head."""
_NEAR = 16 << 10
"""Bytes in which a head stands, and the end of the run before it."""
_CLOCK = 64 << 10
_FEWEST = 2
_LAST_LINES = 40
_TIME = Pattern(r"\b(\d{4}-\d\d-\d\d)[ T_](\d\d:\d\d:\d\d)")
_ENDS = ("last-error-", "last-end")


def last_run(data: bytes) -> int:
    """Return the byte at which the last run begins; 0 where there is one run, as far as is told."""
    if data.find(b"restart worker group") >= 0:
        return 0  # the launcher's own attempts are told apart elsewhere
    heads = list(_heads(data))
    starts = {head: list(_places(data, head)) for head in heads}
    again = {head: places for head, places in starts.items() if 1 < len(places) <= _MOST_STARTS}
    if len(again) < _FEWEST:
        return 0
    first = min(again, key=lambda head: again[head][0])
    for place in reversed(again[first][1:]):
        near = sum(any(place <= p < place + _NEAR for p in places) for places in again.values())
        if near * 2 > len(again) and near >= _FEWEST and _ended_above(data, place):
            if _later(data, place):
                return place
            return 0
    return 0


def _heads(data: bytes) -> Iterator[bytes]:
    """Yield lines of the head that say the same in each run: without numbers."""
    lines = data[:_NEAR].split(b"\n")[:_HEAD_LINES]
    fit = (
        line
        for line in dict.fromkeys(lines)
        if len(line) >= _SHORTEST and not line[:1].isspace() and not any(48 <= c < 58 for c in line)
    )
    for number, line in enumerate(fit):
        if number >= _MOST_HEADS:
            return
        yield line


def _places(data: bytes, head: bytes) -> Iterator[int]:
    """Yield where a line stands, whole; one more than counts at most."""
    whole, at = b"\n" + head + b"\n", 0
    if data[: len(head) + 1] == head + b"\n":
        yield 0
    for _ in range(_MOST_STARTS):
        at = data.find(whole, at)
        if at < 0:
            return
        yield at + 1
        at += 1


def _ended_above(data: bytes, place: int) -> bool:
    """Return whether the lines above a place tell how a run ended."""
    above = data[max(0, place - _NEAR) : place].decode("utf-8", "replace")
    lines = above.splitlines()[-_LAST_LINES:]
    found = Signatures.load("last line").matches(lines)
    return any(match.id.startswith(_ENDS) for row in found for match in row)


def _later(data: bytes, place: int) -> bool:
    """Return whether clocks say that what stands behind a place came after what is above it."""
    above = [m.groups() for m in _TIME.finditer(_text(data[max(0, place - _CLOCK) : place]))]
    below = _TIME.search(_text(data[place : place + _CLOCK]))
    return bool(above) and below is not None and below.groups() >= max(above)


def _text(data: bytes) -> str:
    return data.decode("latin-1")
