"""Lays out a stack: columns where the page is wide enough, two lines a frame where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from postmortem.records import record
from postmortem.render.page import TONES, Line, Page, Span, Style, hanging, heading, line_cells
from postmortem.render.wrapping import cells, padded, wrapped
from postmortem.report.blocks import Backtrace, BacktraceLine, Tone


def backtrace_lines(page: Page, block: Backtrace) -> list[Line]:
    """Lay out a stack with its heading."""
    rows = [_Row.of(page, line) for line in block.lines]
    places = any(row.module and row.location for row in rows)
    columns = _columns(page, rows, places)
    lines = heading(page, block.title, block.subtitle)
    for row in rows:
        lines += (
            _stacked_frame(page, row) if columns is None else _frame(page, row, columns, places)
        )
        lines += _details(page, row.source)
    return lines


@record
class _Row:
    """A backtrace line with its texts made printable."""

    source: BacktraceLine
    head: Line
    function: str
    module: str
    location: str
    note: str
    marker: str

    @classmethod
    def of(cls, page: Page, line: BacktraceLine) -> _Row:
        number = page.glyph("…") if line.index is None else str(line.index)
        loud = line.tone in (Tone.BAD, Tone.WARNING)
        style = TONES[line.tone]
        head: Line = (("!" if loud else " ", style), (f"{number:>3}  ", "quiet"))
        marker = f"{page.glyph('←')} {page.clean(line.marker)}" if line.marker else ""
        return cls(
            line,
            head,
            page.clean(line.function),
            page.clean(line.module or ""),
            page.clean(line.location or ""),
            page.clean(line.note or ""),
            marker,
        )

    @property
    def function_style(self) -> Style:
        if self.source.marker and self.source.tone is Tone.PLAIN:
            return "strong"
        return "quiet" if self.source.index is None else TONES[self.source.tone]

    def places(self, two: bool) -> tuple[str, ...]:
        """Where the frame is: module and source line, in two columns or in one."""
        return (self.module, self.location) if two else (self.module or self.location,)


# Width of "!nnn  ", which stands before each function.
_HEAD = 6
_SHORTEST_FUNCTION = 16
_SHORTEST_NOTE = 20


def _columns(page: Page, rows: Sequence[_Row], two: bool) -> list[int] | None:
    """Return where the columns after the function start; None when they do not fit."""
    columns = zip(*(row.places(two) for row in rows), strict=True)
    widths = [min(max(map(cells, column)), 32) for column in columns]
    taken = _HEAD + sum(width + 2 for width in widths if width)
    notes = max((_note_cells(row) for row in rows), default=0)
    functions = sorted({cells(row.function) for row in rows if row.source.index is not None})
    longest = functions[-1] if functions else 0
    least = min(longest, _SHORTEST_FUNCTION)
    room = page.width - taken - 2 - (min(notes, _SHORTEST_NOTE) + 2 if notes else 0)
    if room < least:
        return None
    # Most functions fit their column and the longest get a line of their own: of all widths, the
    # one that makes the calmest stack.
    candidates = [least, room, *(width for width in functions if least < width <= room)]
    function = min(candidates, key=lambda f: (_unrest(rows, f, page.width - taken - 2 - f), f))
    told = [cells(row.function) for row in rows if row.module or row.location or row.note]
    if 2 * sum(width > function for width in told) > len(told) > 1:
        return None  # most rows would be broken: then all alike
    starts = [_HEAD + function + 2]
    for width in widths:
        starts.append(starts[-1] + (width + 2 if width else 0))
    return starts


def _unrest(rows: Iterable[_Row], function: int, note: int) -> int:
    """Return how much columns of these widths would break up the rows.

    A function apart from its module is worse than a note that goes on in its own column.
    """
    lines = 0
    for row in rows:
        rest = row.module or row.location or row.note
        lines += 2 * (bool(rest) and cells(row.function) > function)
        lines += max(_note_cells(row) - 1, 0) // max(note, 1)
    return lines


def _note_cells(row: _Row) -> int:
    between = 3 if row.marker and row.note else 0
    return cells(row.note) + between + cells(row.marker)


def _frame(page: Page, row: _Row, columns: Sequence[int], two: bool) -> list[Line]:
    lines = hanging(
        page, row.function, indent=_HEAD, first=row.head, style=row.function_style, width=page.width
    )
    for start, text in zip(columns, row.places(two), strict=False):
        if text:
            _put(lines, start, wrapped(text, page.width - start), "quiet")
    if row.note:
        _put(lines, columns[-1], wrapped(row.note, page.width - columns[-1]), "plain")
    if row.marker:
        _put_marker(page, lines, columns[-1], row)
    return lines


def _put(lines: list[Line], start: int, rows: Sequence[str], style: Style) -> None:
    """Write rows at a column, on the last line if it still is free there."""
    used = line_cells(lines[-1])
    if used + 2 > start:
        lines.append(())
        used = 0
    lines[-1] = (*lines[-1], (" " * (start - used), "plain"), (rows[0], style))
    lines += [((" " * start, "plain"), (row, style)) for row in rows[1:]]


def _put_marker(page: Page, lines: list[Line], start: int, row: _Row) -> None:
    used = line_cells(lines[-1])
    if row.note and used + 3 + cells(row.marker) <= page.width:
        lines[-1] = (*lines[-1], ("   ", "plain"), (row.marker, "marker"))
    else:
        _put(lines, start, wrapped(row.marker, page.width - start), "marker")


def _stacked_frame(page: Page, row: _Row) -> list[Line]:
    """A frame on a narrow page: the function, and beside or below it what is known of it."""
    style = row.function_style
    lines = hanging(page, row.function, indent=_HEAD, first=row.head, style=style, width=page.width)
    known: list[Span] = [(part, "quiet") for part in (row.module, row.location) if part]
    known += [(row.note, "plain")] if row.note else []
    dot: Span = (f" {page.glyph('·')} ", "quiet")
    spans = [span for part in known for span in (dot, part)][1:]
    if row.marker:
        spans += [("   ", "plain"), (row.marker, "marker")]
    beside = (*lines[0], ("   ", "plain"), *spans)
    if len(lines) == 1 and line_cells(beside) <= page.width:
        return [beside] if spans else lines
    below: Line = ((" " * _HEAD, "plain"), *spans)
    if line_cells(below) <= page.width:
        return [*lines, below] if spans else lines
    for text, tone in known:
        lines += hanging(page, text, indent=_HEAD, style=tone, width=page.width)
    if row.marker:
        _put_marker(page, lines, _HEAD, row)
    return lines


def _details(page: Page, line: BacktraceLine) -> list[Line]:
    names = [page.clean(name) for name, _ in line.details]
    column = min(max((cells(name) for name in names), default=0), 20)
    lines: list[Line] = []
    for name, (_, value) in zip(names, line.details, strict=True):
        first: Line = ((" " * (_HEAD + 2), "plain"), (f"{padded(name, column)} = ", "quiet"))
        indent = _HEAD + 2 + max(cells(name), column) + 3
        if indent > page.width // 2:
            indent = _HEAD + 4
        shown = page.clean(value, limit=2_000 if page.verbose else 400)
        first_room = page.width - sum(cells(text) for text, _ in first)
        rows = wrapped(shown, max(min(page.width - indent, first_room), 8))
        lines.append((*first, (rows[0], "plain")))
        lines += [((" " * indent, "plain"), (row, "plain")) for row in rows[1:]]
    return lines
