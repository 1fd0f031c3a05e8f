"""Lays blocks out as lines of styled spans; what colour a style has is not known here."""

from collections.abc import Sequence
from typing import assert_never

from postmortem.render.frames import backtrace_lines
from postmortem.render.page import (
    LABEL_WIDTH,
    TONES,
    Line,
    Page,
    Span,
    Style,
    hanging,
    heading,
    labelled,
)
from postmortem.render.wrapping import cells, padded, wrapped
from postmortem.report.blocks import Backtrace, Block, Excerpt, KeyValues, Note, Prose, Table, Tone


def block_lines(page: Page, block: Block) -> list[Line]:
    """Lay out one block."""
    match block:
        case Prose():
            return _prose(page, block)
        case KeyValues():
            return _key_values(page, block)
        case Table():
            return _table(page, block)
        case Backtrace():
            return backtrace_lines(page, block)
        case Excerpt():
            return _excerpt(page, block)
        case Note():
            return _note(page, block)
        case _:
            assert_never(block)


def _prose(page: Page, block: Prose) -> list[Line]:
    text = page.clean_block(block.text)
    if block.title is None:
        return hanging(page, text, indent=0)
    return [*heading(page, block.title), *hanging(page, text, indent=2)]


def _key_values(page: Page, block: KeyValues) -> list[Line]:
    indent = 0 if block.title is None else 2
    keys = [page.clean(key) for key, _ in block.rows]
    widest = max((cells(key) for key in keys), default=0)
    column = max(min(widest + 2, page.width // 3), LABEL_WIDTH)
    lines = [] if block.title is None else heading(page, block.title)
    for key, (_, value) in zip(keys, block.rows, strict=True):
        lines += labelled(page, key, page.clean_block(value), indent=indent, column=column)
    return lines


def _note(page: Page, block: Note) -> list[Line]:
    style = TONES[block.tone]
    mark = "! " if block.tone in (Tone.BAD, Tone.WARNING) else ""
    first: Line = ((mark, style),) if mark else ()
    return hanging(page, page.clean_block(block.text), indent=len(mark), first=first, style=style)


def _excerpt(page: Page, block: Excerpt) -> list[Line]:
    numbers = ["" if number is None else f"{number:,}" for number, _ in block.lines]
    column = max((len(number) for number in numbers), default=0)
    lines = heading(page, block.title)
    for number, (_, text) in zip(numbers, block.lines, strict=True):
        indent = column + 4 if column else 2
        first: Line = ((padded(f"  {number:>{column}}", indent), "quiet"),)
        shown = page.clean(text.expandtabs(8))
        lines += hanging(page, shown, indent=indent, first=first, width=page.width)
    return lines


def _table(page: Page, block: Table) -> list[Line]:
    rows = [tuple(page.clean_block(cell) for cell in row) for row in block.rows]
    heads = tuple(page.clean(head) for head in block.columns)
    widths = _table_widths(page, heads, rows, block.right_aligned)
    lines = [] if block.title is None else heading(page, block.title)
    if widths is None:
        return lines + _records(page, heads, rows)
    if any(heads):
        lines.append(_table_line(heads, widths, block.right_aligned, "label"))
    for row in rows:
        split = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for i in range(max(map(len, split), default=0)):
            texts = [part[i] if i < len(part) else "" for part in split]
            lines.append(_table_line(texts, widths, block.right_aligned, "plain"))
    return lines


def _table_line(
    texts: Sequence[str], widths: Sequence[int], right: Sequence[int], style: Style
) -> Line:
    spans: list[Span] = []
    for i, (text, width) in enumerate(zip(texts, widths, strict=True)):
        spans.append(("  ", "plain"))
        spans.append((padded(text, width, right=i in right), style))
    return tuple(spans)


def _table_widths(
    page: Page, heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]
) -> list[int] | None:
    """Return widths of columns; None when the table is too wide even with its cells wrapped."""
    columns = [list(column) for column in zip(heads, *rows, strict=True)]
    widths = [max(cells(row) for cell in column for row in cell.split("\n")) for column in columns]
    least = [
        width if i in right else min(width, max(cells(heads[i]), 14))
        for i, width in enumerate(widths)
    ]
    room = page.width - 2 * len(widths)
    if sum(least) > room:
        return None
    while sum(widths) > room:  # the widest column that may still shrink gives way
        shrinkable = [i for i, width in enumerate(widths) if width > least[i]]
        widest = max(shrinkable, key=lambda i: widths[i])
        second = max((widths[i] for i in shrinkable if i != widest), default=0)
        excess = sum(widths) - room
        widths[widest] = max(
            widths[widest] - excess, least[widest], min(second, widths[widest] - 1)
        )
    return widths


def _records(page: Page, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Line]:
    """A table as one record a row, for pages that are narrower than its columns."""
    column = max((cells(head) for head in heads), default=0) + 2
    lines: list[Line] = []
    for number, row in enumerate(rows):
        if number:
            lines.append(())
        for head, cell in zip(heads, row, strict=True):
            if cell:
                lines += labelled(page, head, cell, indent=2, column=column)
    return lines
