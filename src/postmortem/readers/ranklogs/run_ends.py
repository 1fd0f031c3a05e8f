"""What stands above a place in a log: how a run ended there, and when."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_words import (
    Ids,
    complete,
    ends,
    form_of,
    read_like,
    stopped,
    strong,
    works,
    wrong,
)
from postmortem.readers.ranklogs.lines import TRACEBACK
from postmortem.readers.signatures import Signatures

Errors: TypeAlias = Callable[[Ids], Ids]
"""Of the messages of a line, those that count as errors."""

NEAR = 16 << 10
"""Bytes in which a head stands, and the end of the run before it."""
CLOCK = 64 << 10
LAST_LINES = 40
_LINES_OF_END = 2
_MOST_TOP = 3
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = Pattern(
    r"\b(?P<date>\d{4}-\d\d-\d\d)[ T_](?P<clock>\d\d:\d\d:\d\d)"
    rf"|\b(?P<month>{'|'.join(_MONTHS)}) +(?P<day>\d{{1,2}}) (?P<time>\d\d:\d\d:\d\d)"
    r"(?: [A-Z]{2,5})? (?P<year>\d{4})\b"
)
"""As loggers write it, and `date`, which begins many a script."""
_BAR = re.compile(rb"(?P<done>\d{1,12})/(?P<all>\d{1,12}) \[(?P<since>\d+(?::\d\d)+)<")
NOTICES = ("shell-ended", "shell-ended-alone", "shell-ended-behind")
_ENDED = ("stopped-by-scheduler", "stopped-due-to", "lsf-ended", "pbs-ended", *NOTICES)


def ended_right_above(data: bytes, place: int) -> bool:
    """Return whether one of the two lines above a place tells how a run failed, or was stopped."""
    near = lines_above(data, place)
    return any(bad_ends(near, read_like(near)))


def lines_above(data: bytes, place: int) -> list[str]:
    above = text_of(data[max(0, place - NEAR) : place]).splitlines()
    return [line for line in above if line.strip()][-_LINES_OF_END:]


def bad_ends(lines: Sequence[str], known: Sequence[Ids]) -> list[bool]:
    """Return which lines tell how a run failed, or that a person or a scheduler ended it."""
    rows = Signatures.load("line").matches(lines)
    return [
        bool(strong(ids)) or stopped(ids) or any(match.id in _ENDED for match in row)
        for ids, row in zip(known, rows, strict=True)
    ]


def signs_of(lines: Iterable[str]) -> list[set[str]]:
    rows = Signatures.load("run sign").matches(lines)
    return [{match.id for match in row} for row in rows]


def ended_above(data: bytes, place: int, errors: Errors) -> bool:
    """Return whether the lines above a place tell how a run ended, well or by one of `errors`."""
    return any(ends(ids) or errors(ids) for _, ids in rows_above(data, place))


def error_above(data: bytes, place: int, since: int) -> tuple[str, int] | None:
    """Return the last line above a place that says how a run failed or was stopped; its number.

    Who watched the program says less than the program did, if no work stands between.
    """
    rows = rows_above(data, place, since)
    bad = bad_ends([text for text, _ in rows], [ids for _, ids in rows])
    found: tuple[str, int] | None = None
    for behind, ((text, ids), is_bad) in enumerate(zip(reversed(rows), reversed(bad), strict=True)):
        if is_bad and (found is None or not _watches(ids)):
            found = text.strip(), data.count(b"\n", 0, place) - behind
        if found is not None and (works(ids) or (is_bad and not _watches(ids))):
            break
    return found


def _watches(ids: Ids) -> bool:
    cut = bool(wrong(ids)) and not complete(wrong(ids))
    return cut or form_of(ids) not in ("", "usage")


def rows_above(data: bytes, place: int, since: int = 0) -> list[tuple[str, Ids]]:
    """Return the last lines above a place, and what they read like."""
    above = data[max(since, place - NEAR) : place].decode("utf-8", "replace")
    lines = above.splitlines()[-LAST_LINES:]
    return list(zip(lines, read_like(lines), strict=True))


def with_top(data: bytes, place: int, lines: int) -> int:
    """Return where a run begins whose first `lines` differ each time, as a date does."""
    begins = [place]
    for _ in range(lines if lines <= _MOST_TOP else 0):
        begins.append(data.rfind(b"\n", 0, max(0, begins[-1] - 1)) + 1)
    above = read_like(text_of(data[begins[-1] : place]).splitlines())
    return place if any(wrong(ids) or ends(ids) for ids in above) else begins[-1]


def later(data: bytes, place: int, *, unknown: bool = False) -> bool:
    """Return whether clocks say that what stands behind a place came after what is above it.

    Without clocks it is `unknown`.
    """
    above = [*_times(data[max(0, place - CLOCK) : place])]
    below = next(_times(data[place : place + CLOCK]), None)
    return below >= max(above) if above and below is not None else unknown


def _times(data: bytes) -> Iterator[tuple[str, str]]:
    for found in _TIME.finditer(text_of(data)):
        if found["date"]:
            yield found["date"], found["clock"]
        else:
            month, day = _MONTHS.index(found["month"]) + 1, int(found["day"])
            yield f"{found['year']}-{month:02}-{day:02}", found["time"]


def text_of(data: bytes) -> str:
    return data.decode("latin-1")


def same_bar(above: bytes, below: bytes) -> bool:
    """Return whether a bar goes on where it was, by its clock too: what stands between was caught.

    A program that resumes has a clock of its own.
    """
    was = [*_BAR.finditer(above[-CLOCK:])][-1:]
    goes_on = _BAR.search(below[:CLOCK])
    if not was or goes_on is None or was[0]["all"] != goes_on["all"]:
        return False
    ran, runs = ([*map(int, bar["since"].split(b":"))] for bar in (was[0], goes_on))
    in_order = (len(ran), ran) <= (len(runs), runs)
    return in_order and 0 < int(was[0]["done"]) <= int(goes_on["done"])


def without_last_error(data: bytes, end: int) -> int:
    """Return where the traceback begins that a run ended with, else its end.

    What stands behind an earlier one is then known to be work.
    """
    at = data.rfind(TRACEBACK, max(0, end - NEAR), end)
    return at if at > 0 else end
