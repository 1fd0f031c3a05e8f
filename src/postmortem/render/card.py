"""Draws a card: at most 15 lines, whatever the width."""

from collections.abc import Iterator, Sequence
from typing import TextIO

from postmortem.patterns import Pattern
from postmortem.records import record, replace
from postmortem.render.page import Line, Page, Span
from postmortem.render.paint import Painter, trimmed
from postmortem.render.wrapping import beginning, cells, padded, wrapped
from postmortem.report.card import Card, Place
from postmortem.report.model import Confidence
from postmortem.report.said import unsaid

MOST_LINES = 15

_INDENT = 2
_LABEL = 7
_TEXT = _INDENT + _LABEL
_LONGEST_VALUE = 40
_MOST_VALUES = 6
_LONGEST_WORD = 16
_HEAD_LINES = 2
_NUMBERED = Pattern(r":\d+$")
"""At the end of the name of a line."""
_SURE = {Confidence.CERTAIN: "good", Confidence.LIKELY: "warning", Confidence.POSSIBLE: "quiet"}


@record
class _Room:
    """How much of each part is shown."""

    around: tuple[int, int]
    """Source lines before and after the one that counts, of the first place and of the second."""
    steps: int
    step_lines: int
    why_lines: int
    rows: int = 6
    places: int = 2
    near: int = 0
    """Rows that only stand around another."""
    row_lines: int = 2


_ROOMS = (
    _Room((2, 2), 3, 4, 5, rows=8, near=4, row_lines=3),
    _Room((2, 2), 3, 2, 3, rows=8, near=4),
    _Room((2, 2), 3, 2, 2, near=2),
    _Room((2, 1), 3, 2, 2, near=4, row_lines=1),
    _Room((1, 1), 3, 2, 2, near=2, row_lines=1),
    _Room((1, 0), 3, 2, 2, near=1, row_lines=1),
    _Room((1, 0), 2, 2, 2, rows=5, near=1, row_lines=1),
    _Room((0, 0), 2, 2, 2, rows=5, row_lines=1),
    _Room((1, 0), 2, 2, 1, rows=5, near=1, row_lines=1),
    _Room((0, 0), 2, 2, 1, rows=4, row_lines=1),
    _Room((0, 0), 1, 2, 2, rows=3, row_lines=1),
    _Room((0, 0), 1, 2, 1, rows=2, row_lines=1),
    _Room((0, 0), 1, 1, 1, rows=1, places=1, row_lines=1),
)
"""From the richest to the barest: the first that fits is drawn."""
_LEFT = ((3, 2, 0), (3, 0, 0), (1, 0, 0), (0, 2, 0), (0, 1, 0), (0, 0, 1))
"""Lines more for the reason, a step and a row, as long as they fit."""


def render(
    card: Card,
    out: TextIO,
    *,
    width: int = 100,
    color: bool = False,
    encoding: str = "utf-8",
    links: bool = False,
) -> None:
    """Write the card; `links` makes the places clickable (OSC 8), for a terminal."""
    page = Page(max(width, 40), encoding)
    painter = Painter(out, color=color)
    targets = {_location(page, one): one for one in card.places} if links else {}
    for line in lines(page, card):
        painter.write(line, {name: f"{one.file}" for name, one in targets.items() if one.file})


def text(card: Card) -> str:
    """Return what stands below the headline as plain text, to go into a page of another form."""
    rows = lines(Page(100), replace(card, footer=()))
    told = ["".join(part for part, _ in trimmed(row)) for row in rows]
    return "\n".join(told[told.index("") + 1 :] if "" in told else ())


def lines(page: Page, card: Card) -> list[Line]:
    """Lay the card out in the most detail that 15 lines hold."""
    laid: list[Line] = []
    for room in _ROOMS:
        laid = list(_lines(page, card, room))
        if len(laid) <= MOST_LINES:
            return _filled(page, card, room, laid)
    return [*laid[: MOST_LINES - 1], laid[-1]]


def _filled(page: Page, card: Card, room: _Room, laid: list[Line]) -> list[Line]:
    """Return the card with the lines that are left given to what was cut."""
    most = map(max, zip(*_LEFT, strict=True))
    if len(laid) == MOST_LINES or len([*_lines(page, card, _more(room, *most))]) == len(laid):
        return laid
    for more in _LEFT:
        fuller = _more(room, *more)
        lines = list(_lines(page, card, fuller))
        if len(laid) < len(lines) <= MOST_LINES:
            room, laid = fuller, lines
    return laid


def _more(room: _Room, why: int, step: int, row: int) -> _Room:
    return replace(
        room,
        why_lines=room.why_lines + why,
        step_lines=room.step_lines + step,
        row_lines=room.row_lines + row,
    )


def _lines(page: Page, card: Card, room: _Room) -> Iterator[Line]:
    head = _cut(page, wrapped(page.clean(card.headline), page.measure), _HEAD_LINES)
    for row in head:
        yield ((row, "title"),)
    middle = [*_places(page, card.places[: room.places], room)]
    middle += _rows(page, card, room, " ".join(head))
    if middle:
        yield ()
        yield from middle
    ending = [*_why(page, card, room), *_steps(page, card.steps[: room.steps], room)]
    if card.rest:
        ending += _labelled(page, "else", card.rest, 1)
    if ending:
        yield ()
        yield from ending
    if card.footer:
        if not (middle or ending):
            yield ()
        yield ((_footer(page, card.footer), "quiet"),)


def _location(page: Page, place: Place) -> str:
    if place.file is None:
        return page.clean(place.module or "?")
    name = place.file.rsplit("/", 1)[-1]
    return page.clean(name if place.line is None else f"{name}:{place.line}", limit=60)


def _places(page: Page, places: Sequence[Place], room: _Room) -> Iterator[Line]:
    widest = page.measure // 2 - _INDENT
    names = [_clip(page, _location(page, one), widest) for one in places]
    column = max(map(cells, names), default=0) + 2
    for name, place, around in zip(names, places, room.around, strict=False):
        within = f"in {page.clean(place.function, limit=60)}"
        if place.module and place.file:
            within += f" ({page.clean(place.module)})"
        if place.doubt:
            within += f" [{place.doubt}]"
        within = _clip(page, within, page.measure - _INDENT - column)
        gap = " " * max(column - cells(name), 1)
        head: list[Span] = [
            (" " * _INDENT, "plain"),
            (name, "label"),
            (gap, "plain"),
            (within, "strong"),
        ]
        used = _INDENT + cells(name + gap + within) + 3
        values = _values(page, place, page.measure - used, whole=True)
        if values:
            yield (*head, ("   ", "plain"), (values, "plain"))
        else:
            yield tuple(head)
            values = _values(page, place, page.measure - 2 * _INDENT - 3)
            if values:
                yield ((" " * (2 * _INDENT + 3), "plain"), (values, "plain"))
        yield from _source(page, place, around)


def _values(page: Page, place: Place, width: int, *, whole: bool = False) -> str:
    """Return as many values as a line holds, the first at least; all or nothing if `whole`."""
    told = [
        f"{page.clean(name)} = {_clip(page, page.clean(value), _LONGEST_VALUE)}"
        for name, value in place.values[:_MOST_VALUES]
    ]
    shown = ", ".join(told)
    if whole:
        return shown if cells(shown) <= width else ""
    while len(told) > 1 and cells(shown) > width:
        told.pop()
        shown = ", ".join(told) + f", {page.glyph('…')}"
    return _clip(page, shown, width)


def _source(page: Page, place: Place, around: int) -> Iterator[Line]:
    line = place.line
    if line is None:
        return
    shown = [(n, text.expandtabs(8)) for n, text in place.source if abs(n - line) <= around]
    while shown and not shown[0][1].strip() and shown[0][0] != line:
        shown.pop(0)
    while shown and not shown[-1][1].strip() and shown[-1][0] != line:
        shown.pop()
    margin = min((len(t) - len(t.lstrip()) for _, t in shown if t.strip()), default=0)
    digits = len(str(shown[-1][0])) if shown else 0
    for number, text in shown:
        mark, style = (">", "strong") if number == line else (" ", "plain")
        code = _clip(page, page.clean(text[margin:]), page.measure - digits - 9)
        yield (
            (f"  {mark} ", "marker"),
            (f"{number:>{digits}}  ", "quiet"),
            (f"  {code}", "strong" if style == "strong" else "plain"),
        )


def _rows(page: Page, card: Card, room: _Room, head: str) -> Iterator[Line]:
    rows = list(_unsaid(card, room, head))
    shown = rows if len(rows) <= room.rows else rows[: max(room.rows - 1, 1)]
    names = [_label(page, page.clean(key)) for key, *_ in shown]
    column = max(map(cells, names), default=0) + 2
    if not any(names):
        column = 0
    marked = any(near for *_, near in shown)
    width = page.measure - _INDENT - column
    told_before = False
    for name, (_, value, near) in zip(names, shown, strict=True):
        if near and told_before:
            yield ()
        told_before = not near and not _NUMBERED.search(name)
        text = page.clean(value, limit=400)
        most = room.row_lines - near if card.failed or not near else 1
        told = _cut(page, wrapped(text, width), most) if most > 1 else [_clip(page, text, width)]
        mark = ">" if marked and not near and _NUMBERED.search(name) else ""
        for number, row in enumerate(told):
            yield (
                (padded("" if number else mark, _INDENT), "marker"),
                (padded(name if not number else "", column), "label"),
                (row, "plain"),
            )
    if len(shown) < len(rows):
        left = f"{page.glyph('…')} {len(rows) - len(shown):,} more"
        yield ((" " * _INDENT, "plain"), (left, "quiet"))


def _label(page: Page, text: str) -> str:
    """Return the name of a row, short; a line keeps its number."""
    number = _NUMBERED.search(text)
    line = number[0] if number else ""
    return _clip(page, text.removesuffix(line), page.measure // 3 - cells(line)) + line


def _unsaid(card: Card, room: _Room, head: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the rows that there is room for, what the headline shows left out; which are near."""
    most = min(room.near, max(room.rows - len(card.rows) + len(card.near), 0))
    for row in card.rows:
        near = row in card.near
        if not near or row in card.near[:most]:
            rest = unsaid(row[1], head) if _NUMBERED.search(row[0]) else row[1]
            if rest or not (near or row == card.quoted):
                yield row[0], rest or row[1], near


def _why(page: Page, card: Card, room: _Room) -> list[Line]:
    if not card.why:
        return []
    text = card.why.rstrip().removesuffix(".")
    if card.confidence is None:
        return _labelled(page, "why", text, room.why_lines)
    sure = f"({card.confidence.value})"
    width = page.measure - _TEXT
    told = [*wrapped(page.clean(f"{text}  {sure}"), width)]
    if len(told) > room.why_lines:
        told = _cut(page, wrapped(page.clean(text), width), room.why_lines)
        told[-1] = f"{_clip(page, told[-1], width - cells(sure) - 2, prose=True)}  {sure}"
    drawn = _hung("why", told)
    last, style = drawn[-1][-1]
    before = last.removesuffix(sure)
    if before != last:
        drawn[-1] = (*drawn[-1][:-1], (before, style), (sure, _SURE[card.confidence]))  # type: ignore[arg-type]
    return drawn


def _steps(page: Page, steps: Sequence[str], room: _Room) -> Iterator[Line]:
    for number, step in enumerate(steps, start=1):
        lead = f"{number}  " if len(steps) > 1 else ""
        told = wrapped(page.clean(step), page.measure - _TEXT - len(lead))
        rows = _cut(page, told, room.step_lines)
        rows = [lead + rows[0], *(" " * len(lead) + row for row in rows[1:])]
        yield from _hung("next" if number == 1 else "", rows)


def _labelled(page: Page, label: str, text: str, most: int) -> list[Line]:
    return _hung(label, _cut(page, wrapped(page.clean(text), page.measure - _TEXT), most))


def _hung(label: str, rows: Sequence[str]) -> list[Line]:
    return [
        (
            (" " * _INDENT, "plain"),
            (padded(label if not number else "", _LABEL), "label"),
            (row, "plain"),
        )
        for number, row in enumerate(rows)
    ]


def _cut(page: Page, rows: Sequence[str], most: int) -> list[str]:
    """Return at most so many lines; the last one says that there were more."""
    kept = [*rows[:most]]
    if len(rows) > most:
        last = kept[-1].rstrip(" ,;:")
        kept[-1] = _clip(page, last, max(map(cells, rows)), more=True, prose=True)
    return kept


def _clip(page: Page, text: str, width: int, *, more: bool = False, prose: bool = False) -> str:
    """Return text of at most so many cells, its end marked where it is cut or there is `more`.

    Of `prose` the last word is left out rather than cut, unless it is a long one.
    """
    if not more and cells(text) <= width:
        return text
    end = page.glyph("…")
    whole = text
    text = beginning(text, width - cells(end))
    if prose and text != whole and whole[len(text)] != " ":
        kept = text.rpartition(" ")[0]
        text = kept if kept and len(text) - len(kept) <= _LONGEST_WORD else text
    return text.rstrip(" .,;:" if prose else None) + end


def _footer(page: Page, parts: Sequence[str]) -> str:
    """Join what fits into one line: the first part and the last, then the others in order."""
    kept = list(map(page.clean, parts))
    dot = f" {page.glyph('·')} "
    while len(kept) > 2 and cells(dot.join(kept)) > page.measure:
        kept.pop(-2)
    return _clip(page, dot.join(kept), page.measure)
