"""Pieces of HTML out of text of the evidence, in which nothing of that text can act."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import assert_never

from postmortem.records import replace
from postmortem.render import safe
from postmortem.render.layout import block_lines
from postmortem.render.page import Page
from postmortem.report.blocks import Backtrace, Block, Excerpt, KeyValues, Note, Prose, Table

_PAGE = Page(width=160)
_LONG = 40
"""Lines of a stack above which it is folded."""


def text(value: str) -> str:
    """Return evidence as text of a page: one line, nothing in it is markup."""
    return escape(safe.line(value), quote=True)


def lines(value: str) -> str:
    """Return evidence as text of several lines."""
    return escape(safe.block(value), quote=True)


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
    ids: Sequence[str] = (),
    sortable: bool = True,
) -> str:
    """Return a table; cells are HTML already, `ids` those of its rows."""
    parts = ['<div class="scroll"><table>']
    if any(heads):
        cells = (
            f'<th scope="col"{_class(i, right)}>'
            + (f"<button>{text(head)}</button>" if sortable else text(head))
            + "</th>"
            for i, head in enumerate(heads)
        )
        parts.append(f"<thead><tr>{''.join(cells)}</tr></thead>")
    parts.append("<tbody>")
    for number, row in enumerate(rows):
        mark = f' id="{ids[number]}"' if ids else ""
        cells = (f"<td{_class(i, right)}>{cell}</td>" for i, cell in enumerate(row))
        parts.append(f"<tr{mark}>{''.join(cells)}</tr>")
    parts.append("</tbody></table></div>")
    return "".join(parts)


def _class(column: int, right: Sequence[int]) -> str:
    return ' class="right"' if column in right else ""


def block(item: Block) -> str:
    """Return one block of a report."""
    match item:
        case Prose():
            return _titled(item.title, f"<p>{lines(item.text)}</p>")
        case KeyValues():
            rows = [(f'<span class="quiet">{text(k)}</span>', lines(v)) for k, v in item.rows]
            return _titled(item.title, table(("", ""), rows))
        case Table():
            cells = [[lines(cell) for cell in row] for row in item.rows]
            return _titled(item.title, table(item.columns, cells, right=item.right_aligned))
        case Backtrace() | Excerpt():
            return _listing(item)
        case Note():
            return f'<p class="{item.tone.value}">{lines(item.text)}</p>'
        case _:
            assert_never(item)


def _titled(title: str | None, markup: str) -> str:
    return markup if title is None else f"<h3>{text(title)}</h3>{markup}"


def _listing(item: Backtrace | Excerpt) -> str:
    subtitle = item.subtitle if isinstance(item, Backtrace) else None
    bare = replace(item, title="")
    if isinstance(bare, Backtrace):
        bare = replace(bare, subtitle=None)
    rows = ["".join(part for part, _ in line).rstrip() for line in block_lines(_PAGE, bare)][1:]
    title = text(item.title) + (f' <span class="quiet">{text(subtitle)}</span>' if subtitle else "")
    body = f"<pre>{lines(chr(10).join(rows))}</pre>"
    if len(rows) > _LONG:
        return f"<details><summary>{title}</summary>{body}</details>"
    return f"<h3>{title}</h3>{body}"
