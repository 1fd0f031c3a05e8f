"""Draws a report for a terminal: verdict, diagnoses, blocks, trouble, footer."""

from collections.abc import Iterable
from typing import TextIO

from postmortem.facts.source import Problem
from postmortem.render import safe
from postmortem.render.layout import block_lines
from postmortem.render.page import LABEL_WIDTH, Line, Page, Span, Style, hanging, heading, labelled
from postmortem.render.paint import Painter
from postmortem.render.wrapping import cells, padded, wrapped
from postmortem.report.blocks import Block, KeyValues
from postmortem.report.model import Confidence, Diagnosis, Evidence, Report, Role, Skipped

_SURENESS: dict[Confidence, Style] = {
    Confidence.CERTAIN: "good",
    Confidence.LIKELY: "warning",
    Confidence.POSSIBLE: "quiet",
}

_INDENT = 2
_TEXT = _INDENT + LABEL_WIDTH

# Below this width nothing stands beside a sentence.
_NARROW = 72

# How much of a report is shown without -v.
_EVIDENCE_SHOWN = 4
_FULL_DIAGNOSES = 5
_PROBLEMS_SHOWN = 8

# Lines from which on the verdict stands at the end, too.
_SCREEN = 40


def render(
    report: Report,
    out: TextIO,
    *,
    width: int = 100,
    color: bool = False,
    encoding: str = "utf-8",
    verbose: bool = False,
) -> None:
    """Write the report as text of at most `width` cells a line (at least 40)."""
    page = Page(max(width, 40), encoding, verbose)
    painter = Painter(out, color=color)
    for line in _report_lines(page, report):
        painter.write(line)


def _report_lines(page: Page, report: Report) -> list[Line]:
    lines: list[Line] = [
        ((row, "title"),) for row in wrapped(page.clean(report.verdict), page.measure)
    ]
    for number, diagnosis in enumerate(report.diagnoses):
        lines.append(())
        if number == 0:
            lines += _first_diagnosis(page, diagnosis, report.verdict)
        else:
            brief = number > _FULL_DIAGNOSES and not page.verbose
            lines += _other_diagnosis(page, diagnosis, brief=brief)
    before: Block | None = None
    blocks, problems = _with_trouble(page, report)
    for block in blocks:
        if not (_is_fact_row(before) and _is_fact_row(block)):
            lines.append(())
        lines += block_lines(page, block)
        before = block
    if problems:
        if not _is_fact_row(before):
            lines.append(())
        lines += _trouble(page, problems)
    if page.verbose and report.skipped:
        lines += [(), *_skipped(page, report.skipped)]
    if report.footer_line:
        lines += [(), *hanging(page, page.clean(report.footer_line), indent=0, style="quiet")]
    if len(lines) > _SCREEN:  # the first line has scrolled away
        lines += [((row, "title"),) for row in wrapped(page.clean(report.verdict), page.measure)]
    return lines


def _with_trouble(page: Page, report: Report) -> tuple[list[Block], tuple[Problem, ...]]:
    """Return the blocks, and the problems that still need a place.

    Where the last block is a list of trouble already, problems join it.
    """
    blocks = list(report.blocks)
    last = blocks[-1] if blocks else None
    if not (isinstance(last, KeyValues) and last.title == "trouble"):
        return blocks, report.problems
    shown = report.problems if page.verbose else report.problems[:_PROBLEMS_SHOWN]
    rows = [(p.where, _told(page, p)) for p in shown]
    if len(shown) < len(report.problems):
        rows.append(("…", f"{len(report.problems) - len(shown)} more with -v"))
    blocks[-1] = KeyValues((*last.rows, *rows), last.title)
    return blocks, ()


def _told(page: Page, problem: Problem) -> str:
    """What could not be read, and in a second line what helps."""
    text = safe.line(problem.what)
    if problem.remedy:
        text += f"\n{page.glyph('→')} {safe.line(problem.remedy)}"
    return text


def _is_fact_row(block: Block | None) -> bool:
    """Whether a block is rows without a title: such blocks form one list with what follows."""
    return isinstance(block, KeyValues) and block.title is None


def _first_diagnosis(page: Page, diagnosis: Diagnosis, verdict: str) -> list[Line]:
    # A title that the verdict already says would only be read twice.
    repeated = diagnosis.title.casefold() in verdict.casefold()
    lines = _claim(page, "cause", diagnosis.cause if repeated else diagnosis.title, diagnosis)
    return lines + _in_full(page, diagnosis, "" if repeated else diagnosis.cause)


def _in_full(page: Page, diagnosis: Diagnosis, meaning: str) -> list[Line]:
    lines = _row(page, "meaning", page.clean_block(meaning)) if meaning else []
    lines += _seen(page, diagnosis.evidence)
    lines += _steps(page, diagnosis.next_steps)
    if diagnosis.references:
        lines += _row(page, "read", "\n".join(page.clean(r) for r in diagnosis.references))
    return lines


def _other_diagnosis(page: Page, diagnosis: Diagnosis, *, brief: bool) -> list[Line]:
    lines = _claim(page, "also", diagnosis.title, diagnosis)
    if page.verbose:
        return lines + _in_full(page, diagnosis, diagnosis.cause)
    if brief:
        return lines
    if diagnosis.cause:
        lines += hanging(page, page.clean_block(diagnosis.cause), indent=_TEXT)
    if diagnosis.evidence:
        lines += _row(page, "seen", _places(page, diagnosis.evidence))
    if diagnosis.next_steps:
        more = len(diagnosis.next_steps) - 1
        step = page.clean(diagnosis.next_steps[0])
        lines += _row(page, "next", f"{step}   ({more} more with -v)" if more else step)
    return lines


def _places(page: Page, evidence: tuple[Evidence, ...]) -> str:
    """Where the evidence is, with what it says as far as one line holds it."""
    whole = "   ".join(page.clean(f"{item.where}: {item.what}") for item in evidence)
    if cells(whole) <= page.measure - _TEXT:
        return whole
    return page.clean(", ".join(item.where for item in evidence), limit=300)


def _claim(page: Page, label: str, text: str, diagnosis: Diagnosis) -> list[Line]:
    """Lay out a conclusion with how sure it is: at the right edge, or after it on narrow pages."""
    tag = diagnosis.confidence.value
    if diagnosis.role is not Role.ROOT:
        tag = f"{diagnosis.role.value}, {tag}"
    shown = page.clean_block(text)
    if page.width < _NARROW:
        return _row(page, label, f"{shown}   ({tag})")
    first: Line = ((" " * _INDENT, "plain"), (padded(label, LABEL_WIDTH), "label"))
    width = page.measure - cells(tag) - 3
    lines = hanging(page, shown, indent=_TEXT, first=first, width=width)
    used = sum(cells(part) for part, _ in lines[0])
    fill: Span = (" " * (page.measure - used - cells(tag)), "plain")
    lines[0] = (*lines[0], fill, (tag, _SURENESS[diagnosis.confidence]))
    return lines


def _row(page: Page, label: str, text: str) -> list[Line]:
    return labelled(page, label, text, indent=_INDENT)


def _seen(page: Page, evidence: tuple[Evidence, ...]) -> list[Line]:
    shown = evidence if page.verbose else evidence[:_EVIDENCE_SHOWN]
    places = [page.clean(item.where, limit=120) for item in shown]
    column = min(max((cells(place) for place in places), default=0), page.width // 3)
    lines: list[Line] = []
    for number, (place, item) in enumerate(zip(places, shown, strict=True)):
        label = padded("seen" if number == 0 else "", LABEL_WIDTH)
        beginning, *rest = wrapped(place, page.measure - _TEXT)
        first: Line = (
            (" " * _INDENT, "plain"),
            (label, "label"),
            (padded(beginning, column), "quiet"),
        )
        above = [first, *(((" " * _TEXT, "plain"), (row, "quiet")) for row in rest)]
        what = page.clean(item.what, limit=2_000 if page.verbose else 400)
        start = _TEXT + column + 2
        if page.width < _NARROW:
            lines += [*above, *hanging(page, what, indent=_TEXT + 2)]
        elif cells(place) > column:
            lines += [*above, *hanging(page, what, indent=start)]
        else:
            lines += hanging(page, what, indent=start, first=(*first, ("  ", "plain")))
    if len(shown) < len(evidence):
        lines.append(((f"{' ' * _TEXT}{len(evidence) - len(shown)} more with -v", "quiet"),))
    return lines


def _steps(page: Page, steps: tuple[str, ...]) -> list[Line]:
    if len(steps) == 1:
        return _row(page, "next", page.clean_block(steps[0]))
    lines: list[Line] = []
    digits = len(str(len(steps)))
    for number, step in enumerate(steps, start=1):
        label = padded("next" if number == 1 else "", LABEL_WIDTH)
        first: Line = (
            (" " * _INDENT, "plain"),
            (label, "label"),
            (f"{number:>{digits}}  ", "strong"),
        )
        lines += hanging(page, page.clean_block(step), indent=_TEXT + digits + 2, first=first)
    return lines


def _trouble(page: Page, problems: tuple[Problem, ...]) -> list[Line]:
    shown = problems if page.verbose else problems[:_PROBLEMS_SHOWN]
    lines: list[Line] = []
    for number, problem in enumerate(shown):
        text = f"{safe.line(problem.where)}: {_told(page, problem)}"
        lines += labelled(page, "trouble" if number == 0 else "", page.clean_block(text))
    if len(shown) < len(problems):
        left = f"{len(problems) - len(shown)} more with -v"
        lines.append(((" " * LABEL_WIDTH + left, "quiet"),))
    return lines


def _skipped(page: Page, skipped: Iterable[Skipped]) -> list[Line]:
    lines = heading(page, "rules that lacked a fact")
    items = list(skipped)
    names = [page.clean(item.rule) for item in items]
    column = min(max(map(cells, names)) + 2, page.width // 2)
    for name, item in zip(names, items, strict=True):
        text = f"needs {page.clean(item.missing)}"
        if item.remedy:
            text += f": {page.clean(item.remedy)}"
        lines += labelled(page, name, text, indent=_INDENT, column=column)
    return lines
