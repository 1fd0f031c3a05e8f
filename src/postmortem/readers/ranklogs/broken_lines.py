"""Lines that go on in the next ones: what announces a message, what a console has broken."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_stack import dumped
from postmortem.readers.ranklogs.last_words import (
    Ids,
    calm,
    is_cut_head,
    is_frame,
    survived,
    watched,
)
from postmortem.readers.ranklogs.lines import IGNORED, looks_like_log

Row: TypeAlias = tuple[int, str, int, int]
Rows: TypeAlias = Sequence[Row]
"""Last lines of a writer: number, text, since when its form was printed, how often."""

_NAMED_ALONE = Pattern(
    r"(?:Error|Exception|ERROR|an error): *(?:\([\w.+-]+\) *|Caught \w+ in .*\.)?$"
    r"|(?:Error|Exception) in (?:rule|file) .*:$|^E\w{5}: Inner Error!$"
    r"|\.(?:c|cc|cpp|cu|h|hpp|rs):(?:\d+:){1,2}$|^\s*Last error: *$|\bDescription: *$"
)
_LABEL = Pattern(r"^Description: *$")
"""Below a heading, of what says more than it."""
_LISTS = Pattern(r"^\s*\(0\) \S")
"""The first of several errors, below an exception that counts them."""
_PLACE = Pattern(r"^\w+ (?:from|at|in) \S+:\d+:$")
"""Where a message came by, and no word of it."""
_ANNOUNCES = Pattern(r"(?::|\b[A-Z][a-z]+ Error) *$")
_RAISED = Pattern(r"\w(?:Error|Exception): \S")
_OF_TRACEBACK = Pattern(r"[A-Za-z_][\w.]*(?::|$)|Traceback \(most ")
_NARROWEST = 60  # of consoles
_MOST = 8


def whole_texts(rows: Rows, ids: Sequence[Ids], *, console: bool = True) -> Iterator[str]:
    """Yield the texts of lines, with the next ones where a message begins there or goes on.

    It does below what it announces, and where a `console` broke it: no word of the next line had
    room behind it.
    """
    widest = max(len(text) for _, text, *_ in rows)
    width = widest if console and widest >= _NARROWEST else -1
    for at, (line, said, *_) in enumerate(rows):
        text = last = said
        for (number, more, *_), names in zip(
            rows[at + 1 : at + _MOST], ids[at + 1 :], strict=False
        ):
            other = looks_like_log(more) or watched(names) or survived(names)
            raised = _RAISED.search(text) is not None and not other
            named = _NAMED_ALONE.search(text) or (
                _ANNOUNCES.search(text) is not None and (raised or _margin(more) > _margin(text))
            )
            room = width - len(last)
            full = 0 <= room <= len(more.split(" ", 1)[0]) and not more[:1].isspace()
            listed = raised and _LISTS.match(more) is not None
            goes_on = (
                named or listed or _LABEL.match(more) or (raised and full and number - line <= 1)
            )
            if is_frame(names) or is_cut_head(names) or dumped(more) or not goes_on:
                break
            line, last = number, more
            if not (_PLACE.match(more) or calm(names)):
                text = f"{text} {more.strip()}"
        yield text


def _margin(text: str) -> int:
    return len(text) - len(text.lstrip())


def minded(rows: Rows) -> Iterator[Row]:
    """Yield rows without the tracebacks that Python itself ignores, as it takes an object down."""
    inside = False
    for row in rows:
        if row[1].startswith(IGNORED):
            inside = True
        elif inside and (row[1][:1].isspace() or _OF_TRACEBACK.match(row[1])):
            inside = row[1][:1].isspace() or row[1].startswith("Traceback ")
        else:
            inside = False
            yield row
