"""What every card must hold, whatever the report is about: counted in lines, not in wording."""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from postmortem.diagnose.rule import Outcome
from postmortem.present.card import card_of, filled
from postmortem.render import card as drawing
from postmortem.render import safe, terminal
from postmortem.render.page import MEASURE, Page
from postmortem.render.paint import Painter
from postmortem.render.wrapping import cells
from postmortem.report.card import Card
from postmortem.report.model import Report, ordered

WIDTHS = (40, 80, MEASURE)
"""Wider ones are laid out as the last."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BLANK = re.compile(r"\b(?:FILE|LIBRARY|LINE|MODULE)\b(?!=)")
_BLANK_OF_CORES = re.compile(r"\b(?:CORE|EXE|PID)\b")
_WORD = re.compile(r"[\w./-]+")
_FILLERS = frozenset("a an and are is it its of says that the them they this was were".split())
_OURS = re.compile(r"\bpostmortem/(?:monitor|breakpoints|run/hook)/")
_MOST_HEAD = 2
_NARROW = 80
_MOST_STEPS = 3
_LEAST = 40
"""Characters from which on words that stand twice are no accident."""


def drawn(card: Card, width: int) -> tuple[str, str]:
    """Return a card as a terminal of that width shows it, without colours and with them."""
    laid = drawing.lines(Page(width), card)
    plain, coloured = io.StringIO(), io.StringIO()
    for out, color in ((plain, False), (coloured, True)):
        painter = Painter(out, color=color)
        for line in laid:
            painter.write(line)
    return plain.getvalue(), coloured.getvalue()


@contextmanager
def made() -> Iterator[list[Report]]:
    """Collect the reports that analyses make, and one for each outcome of rules."""
    found: list[Report] = []

    def watched(kind: type[Any], taken: Any) -> Any:
        before = kind.__init__

        def begin(self: Any, *given: Any, **named: Any) -> None:
            before(self, *given, **named)
            taken(self, sys._getframe(1).f_globals.get("__name__", ""))

        return begin

    def report(one: Report, maker: str) -> None:
        if maker.startswith(("postmortem.analyses.", "postmortem.present.")):
            if found and found[-1].kind == "rules":
                found.pop()  # the outcome that this report tells
            found.append(one)

    def outcome(one: Outcome, _maker: str) -> None:
        rows = ordered(one.diagnoses)
        if rows:
            said = rows[0].verdict or rows[0].title
            found.append(Report("rules", (), said, True, rows, (), {}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Report, "__init__", watched(Report, report))
        patch.setattr(Outcome, "__init__", watched(Outcome, outcome))
        yield found


def faults(report: Report) -> Iterator[str]:
    """Yield what is wrong with the first screen of a report."""
    card = card_of(filled(report))
    for width in WIDTHS:
        text, coloured = drawn(card, width)
        rows = text.splitlines()
        if len(rows) > drawing.MOST_LINES:
            yield f"{width}: {len(rows)} lines"
        if any(cells(row) > width for row in rows):
            yield f"{width}: a line is wider"
        head = rows.index("") if "" in rows else len(rows)
        if head > _MOST_HEAD and width >= _NARROW:
            yield f"{width}: a verdict of {head} lines: {card.headline}"
        if _COLOUR.sub("", coloured) != text:
            yield f"{width}: colours change the text"
    if len(card.steps) > _MOST_STEPS:
        yield f"{len(card.steps)} next steps"
    yield from _twice(card)
    blanks = [_BLANK, _BLANK_OF_CORES] if report.kind == "core" else [_BLANK]
    for one in card.steps:
        if report.kind != "rules" and any(blank.search(one) for blank in blanks):
            yield f"a blank in a step: {one}"
    whole = io.StringIO()
    terminal.render(filled(report), whole, verbose=True)
    if _OURS.search(whole.getvalue()):
        yield "our own frames"
    told = " ".join(whole.getvalue().split())
    verdict = report.verdict
    if safe.line(verdict) == verdict and " ".join(verdict.split())[:_LEAST] not in told:
        yield "the verdict is not in the whole report"


def _twice(card: Card) -> Iterator[str]:
    """Yield parts of a card whose words stand in another part of it."""
    if _all_in(card.why, card.headline, least=1):
        yield f"all words of the reason stand in the headline: {card.why}"
    if _all_in(card.headline, card.why, least=1):
        yield f"all words of the headline stand in the reason: {card.headline}"
    parts = [("headline", card.headline), ("why", card.why), ("else", card.rest or "")]
    rows = [row for row in card.rows if row != card.quoted]  # drawn is what the headline cut
    parts += [("row", value) for _, value in rows]
    parts += [("step", one) for one in card.steps]
    for number, (name, text) in enumerate(parts):
        if card.rows and name == "why" and card.places == ():
            continue  # of what happened apart from the rest, a chain says what the answer says
        for other, within in parts[:number] + parts[number + 1 :]:
            if name == other == "row":
                continue  # two processes may stand alike
            if len(text) >= _LEAST and _plain(text) in _plain(within):
                yield f"{name} stands in {other}: {text}"
            elif (name, other) == ("row", "headline") and _all_in(text, within):
                yield f"all words of a row stand in the headline: {text}"


def _all_in(text: str, within: str, *, least: int = _LEAST) -> bool:
    words, known = ({*map(str.casefold, _WORD.findall(one))} for one in (text, within))
    return len(text) >= least and words <= known | _FILLERS


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".…")
