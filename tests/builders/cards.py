"""What every card must hold, whatever the report is about: counted in lines, not in wording."""

import io
import re
from collections.abc import Iterator

from postmortem.present.card import card_of, filled
from postmortem.render import card as drawing
from postmortem.render import terminal
from postmortem.render.wrapping import cells
from postmortem.report.card import Card
from postmortem.report.model import Report

WIDTHS = (80, 120, 160)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BLANK = re.compile(r"\b(?:CORE|EXE|FILE|LIBRARY|LINE|MODULE)\b(?!=)")
_OURS = re.compile(r"\bpostmortem/(?:monitor|breakpoints|run/hook)/")
_MOST_HEAD = 2
_LEAST = 40
"""Characters from which on words that stand twice are no accident."""


def drawn(card: Card, width: int, *, color: bool = False) -> str:
    """Return a card as a terminal of that width shows it."""
    out = io.StringIO()
    drawing.render(card, out, width=width, color=color)
    return out.getvalue()


def faults(report: Report) -> Iterator[str]:
    """Yield what is wrong with the first screen of a report."""
    card = card_of(filled(report))
    for width in WIDTHS:
        text = drawn(card, width)
        rows = text.splitlines()
        if len(rows) > drawing.MOST_LINES:
            yield f"{width}: {len(rows)} lines"
        if any(cells(row) > width for row in rows):
            yield f"{width}: a line is wider"
        head = rows.index("") if "" in rows else len(rows)
        if head > _MOST_HEAD:
            yield f"{width}: a verdict of {head} lines: {card.headline}"
        if _COLOUR.sub("", drawn(card, width, color=True)) != text:
            yield f"{width}: colours change the text"
    yield from _twice(card)
    yield from (f"a blank in a step: {one}" for one in card.steps if _BLANK.search(one))
    whole = io.StringIO()
    terminal.render(filled(report), whole, verbose=True)
    if _OURS.search(whole.getvalue()):
        yield "our own frames"
    told = " ".join(whole.getvalue().split())
    if " ".join(report.verdict.split())[:_LEAST] not in told:
        yield "the verdict is not in the whole report"


def _twice(card: Card) -> Iterator[str]:
    """Yield parts of a card whose words stand in another part of it."""
    parts = [("headline", card.headline), ("why", card.why), ("else", card.rest or "")]
    parts += [("row", value) for _, value in card.rows]
    parts += [("step", one) for one in card.steps]
    for number, (name, text) in enumerate(parts):
        if card.rows and name == "why" and card.places == ():
            continue  # of what happened apart from the rest, a chain says what the answer says
        for other, within in parts[:number] + parts[number + 1 :]:
            if len(text) >= _LEAST and _plain(text) in _plain(within):
                yield f"{name} stands in {other}: {text}"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".…")
