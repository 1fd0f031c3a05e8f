"""Where the last run of a file begins that several runs, or several programs, were written to.

A run begins as the file does (lines of its head come again, behind the end of the run before, and
later by the clock), where somebody says that one does, or behind a program that an exception has
ended while another one worked on. Ranks that write into one file side by side are one run.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_words import ends, strong, wrong
from postmortem.readers.signatures import Signatures
from postmortem.records import record

Errors: TypeAlias = Callable[[Iterable[str]], Sequence[str]]
"""Of the messages of a line, those that count as errors."""

MOST_BYTES = 64 << 20
_MASKED_BYTES = 8 << 20
"""Of logs that are searched once more for heads that differ in their numbers."""
_HEAD_LINES = 64
_SHORTEST = 20
_MOST_HEADS = 16
_MOST_STARTS = 256
"""A line that comes more often is none of a head."""
_MOST_MASKED = 32
"""The same without its numbers: a step is like any other."""
_NEAR = 16 << 10
"""Bytes in which a head stands, and the end of the run before it."""
_CLOCK = 64 << 10
_FEWEST = 2
_LAST_LINES = 40
_SAMPLE = 4 << 20
"""Bytes of each end of a log that are searched for signs of ranks."""
_FEWEST_WORK = 5
"""Lines of work behind an exception: bars are drawn once more when their program ends."""
_TIME = Pattern(r"\b(\d{4}-\d\d-\d\d)[ T_](\d\d:\d\d:\d\d)")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_NEXT = "run-next"
_TRACEBACK = b"Traceback (most recent call last):"
_PROGRAM = (
    rb"Traceback \(most recent call last\):\r?\n"
    rb'  File "([^"\n]{1,500})", line \d+, in <module>\r?\n'
)
_OF_OTHERS = (b"CalledProcessError", b"ChildFailedError", b"ProcessRaisedException")
"""What a program raises because another one has ended."""
_LAUNCHERS = (b"/torchrun", b"/accelerate", b"/deepspeed", b"<string>", b"<stdin>", b"/ray")
_CHAINED = (b"During handling of", b"The above exception was", b"Traceback (")
_RANKS = (
    *(b"[rank", b"ChildFailedError", b"closing signal", b"srun: error", b"/distributed/run.py"),
    *(b"launch.py:", b"mpirun", b"(raylet)", b"RayTaskError("),
)
"""What only logs of several processes hold, which write side by side."""


@record
class LaterRun:
    """The last run of a file, and how the one before it ended."""

    begin: int
    """The byte at which it begins."""
    before: str = ""
    """What the run before it said last, if that reads like an error."""
    line: int = 0
    """Where that stands."""


def last_run(data: bytes) -> LaterRun | None:
    """Return the last run; None where there is one run, as far as is told."""
    if data.find(b"restart worker group") >= 0:
        return None  # the launcher's own attempts are told apart elsewhere
    again = _head_again(data, data, wrong, _MOST_STARTS)
    if not again and len(data) <= _MASKED_BYTES and _TRACEBACK in data:
        again = _head_again(data, data.translate(_DIGITS), strong, _MOST_MASKED)
    begin = max(again, _announced(data), _behind_program(data))
    if not begin:
        return None
    error = _error_above(data, begin)
    return LaterRun(begin, *error) if error else LaterRun(begin)


def _head_again(data: bytes, alike: bytes, errors: Errors, most: int) -> int:
    """Return where the head of the file comes again behind an end; 0 where it does not.

    Lines are compared as they stand in `alike`, where all numbers may be one.
    """
    heads = list(_heads(alike))
    starts = {head: list(_places(alike, head, most)) for head in heads}
    again = {head: places for head, places in starts.items() if 1 < len(places) <= most}
    if len(again) < _FEWEST:
        return 0
    first = min(again, key=lambda head: again[head][0])
    for place in reversed(again[first][1:]):
        near = sum(any(place <= p < place + _NEAR for p in places) for places in again.values())
        if near * 2 > len(again) and near >= _FEWEST and _ended_above(data, place, errors):
            return place if _later(data, place) else 0
    return 0


def _heads(data: bytes) -> Iterator[bytes]:
    """Yield lines of the head that say the same in each run, but for numbers: no error's."""
    lines = data[:_NEAR].partition(_TRACEBACK)[0].split(b"\n")[:_HEAD_LINES]
    fit = (
        line for line in dict.fromkeys(lines) if len(line) >= _SHORTEST and not line[:1].isspace()
    )
    for number, line in enumerate(fit):
        if number >= _MOST_HEADS:
            return
        yield line


def _places(data: bytes, head: bytes, most: int) -> Iterator[int]:
    """Yield where a line stands, whole; one more than counts at most."""
    whole, at = b"\n" + head + b"\n", 0
    if data[: len(head) + 1] == head + b"\n":
        yield 0
    for _ in range(most):
        at = data.find(whole, at)
        if at < 0:
            return
        yield at + 1
        at += 1


def _announced(data: bytes) -> int:
    """Return where the last run begins that somebody says begins; 0 where nobody does."""
    known = Signatures.load("run begin")
    rows = known.find(data, each=_MOST_STARTS)
    for hit in sorted(rows, key=lambda hit: -hit.offset):
        place = data.rfind(b"\n", 0, hit.offset) + 1
        if place and (hit.id == _NEXT or _ended_above(data, place, strong)):
            return place
    return 0


def _behind_program(data: bytes) -> int:
    """Return the end of a program that an exception ended while another one worked on, or raised.

    Its outermost frame is a module's: nothing is left of it to catch the exception.
    """
    if _TRACEBACK not in data:
        return 0
    ends = data[:_SAMPLE] + data[-_SAMPLE:]
    if any(sign in ends for sign in _RANKS):
        return 0
    raised = [one for one in _programs(data) if not one[1].endswith(_LAUNCHERS)]
    if not raised:
        return 0
    last = raised[-1]
    said, end = _end_of(data, last.end())
    if _goes_on(data[end:]):
        return end
    if any(name in said for name in _OF_OTHERS) or all(one[1] == last[1] for one in raised):
        return 0
    return data.rfind(b"\n", 0, last.start()) + 1


def _programs(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the heads of tracebacks whose outermost frame is a module's."""
    form = re.compile(_PROGRAM)
    at = data.find(_TRACEBACK)
    while at >= 0:
        if found := form.match(data, at):
            yield found
        at = data.find(_TRACEBACK, at + 1)


def _end_of(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the exception of a traceback, and where the lines of it end."""
    said = b""
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        line = data[at:end]
        at = end
        if line[:1].isspace():
            continue
        said = line
        below = data[at : at + 200].lstrip(b"\r\n")
        if not any(text.startswith(_CHAINED) for text in (line, below)):
            break
    return said, at


def _goes_on(data: bytes) -> bool:
    """Return whether lines behind an exception tell of another program's work, or its end."""
    lines = [
        line
        for line in _text(data[-_CLOCK:]).splitlines()[-_LAST_LINES:]
        if line.strip() and not line.startswith("wandb:")
    ]
    found = [[match.id for match in row] for row in Signatures.load("last line").matches(lines)]
    if len(lines) > _FEWEST and any(ends(ids) for ids in found):
        return True
    return sum(any(name.startswith("last-work") for name in ids) for ids in found) >= _FEWEST_WORK


def _ended_above(data: bytes, place: int, errors: Errors) -> bool:
    """Return whether the lines above a place tell how a run ended, well or by one of `errors`."""
    return any(ends(ids) or errors(ids) for _, ids in _rows_above(data, place))


def _error_above(data: bytes, place: int) -> tuple[str, int] | None:
    """Return the last line above a place that says how a run failed, and its number."""
    for behind, (text, ids) in enumerate(reversed(_rows_above(data, place))):
        if strong(ids):
            return text.strip(), data.count(b"\n", 0, place) - behind
    return None


def _rows_above(data: bytes, place: int) -> list[tuple[str, list[str]]]:
    """Return the last lines above a place, and what they read like."""
    above = data[max(0, place - _NEAR) : place].decode("utf-8", "replace")
    lines = above.splitlines()[-_LAST_LINES:]
    found = Signatures.load("last line").matches(lines)
    return [(line, [match.id for match in row]) for line, row in zip(lines, found, strict=True)]


def _later(data: bytes, place: int) -> bool:
    """Return whether clocks say that what stands behind a place came after what is above it."""
    above = [m.groups() for m in _TIME.finditer(_text(data[max(0, place - _CLOCK) : place]))]
    below = _TIME.search(_text(data[place : place + _CLOCK]))
    return bool(above) and below is not None and below.groups() >= max(above)


def _text(data: bytes) -> str:
    return data.decode("latin-1")
