"""What lines at the borders of runs read like: an end, an error, work."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_words import ends, stopped, strong, wrong
from postmortem.readers.signatures import Signatures

Errors: TypeAlias = Callable[[Iterable[str]], Sequence[str]]
"""Of the messages of a line, those that count as errors."""

NEAR = 16 << 10
"""Bytes in which a head stands, and the end of the run before it."""
LAST_LINES = 40
_LINES_OF_END = 2
FEWEST = 2
_FEWEST_WORK = 5
"""Lines of work behind an exception: bars are drawn once more when their program ends."""
_SCHEDULERS = ("stopped-by-scheduler", "stopped-due-to", "lsf-ended", "pbs-ended")
_CLOCKS = Pattern(r"\d+:\d\d(?::\d\d)?(?:[.,]\d+)?")
_NUMBER = Pattern(r"\d+(?:\.\d+)?")


def read_like(lines: Sequence[str]) -> list[list[str]]:
    """Return of each line the ids of what last lines read like."""
    return [[match.id for match in row] for row in Signatures.load("last line").matches(lines)]


def signs_in(lines: Iterable[str]) -> list[set[str]]:
    """Return of each line the ids of signs that a run begins, or that processes share a file."""
    rows = Signatures.load("run sign").matches(lines)
    return [{match.id for match in row} for row in rows]


def lines_above(data: bytes, place: int) -> list[str]:
    """Return the lines right above a place that say anything."""
    above = text_of(data[max(0, place - NEAR) : place]).splitlines()
    return [line for line in above if line.strip()][-_LINES_OF_END:]


def rows_above(data: bytes, place: int, since: int = 0) -> list[tuple[str, list[str]]]:
    """Return the last lines above a place, and what they read like."""
    above = data[max(since, place - NEAR) : place].decode("utf-8", "replace")
    lines = above.splitlines()[-LAST_LINES:]
    return list(zip(lines, read_like(lines), strict=True))


def bad_ends(lines: Sequence[str], read_like: Sequence[list[str]]) -> list[bool]:
    """Return which lines tell how a run failed, or that a person or a scheduler ended it."""
    known = Signatures.load("line").matches(lines)
    return [
        bool(strong(ids)) or stopped(ids) or any(match.id in _SCHEDULERS for match in row)
        for ids, row in zip(read_like, known, strict=True)
    ]


def ended_above(data: bytes, place: int, errors: Errors) -> bool:
    """Return whether the lines above a place tell how a run ended, well or by one of `errors`."""
    return any(ends(ids) or errors(ids) for _, ids in rows_above(data, place))


def work_on(lines: Sequence[str]) -> bool:
    """Return whether so many lines tell of work that a program is at it.

    Words that are known say so, or the form, in any language: a line comes again and again in
    which two numbers differ, as a step and a loss do, not counting clocks. Forms alone do not do:
    a message may end with a list in which one number counts, and a bar changes its form.
    """
    found = read_like(lines)
    if sum(any(name.startswith("last-work") for name in ids) for ids in found) >= _FEWEST_WORK:
        return True
    moved: dict[str, list[list[str]]] = {}
    for line, ids in zip(lines, found, strict=True):
        if not wrong(ids):
            text = _CLOCKS.sub("", line.strip())
            moved.setdefault(_NUMBER.sub("0", text), []).append(_NUMBER.findall(text))
    return any(
        sum(len(set(numbers)) >= _FEWEST_WORK for numbers in zip(*rows, strict=True)) >= FEWEST
        for rows in moved.values()
        if len(rows) >= _FEWEST_WORK
    )


def text_of(data: bytes) -> str:
    """Return bytes as text in which each stands for itself."""
    return data.decode("latin-1")
