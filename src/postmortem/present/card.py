"""A report's conclusion as a card: the one place where it is decided what the first screen says."""

from __future__ import annotations

import re
from postmortem.patterns import Pattern
from postmortem.records import replace
from postmortem.report.card import Card, Highlights
from postmortem.report.model import Diagnosis, Report, Role
from postmortem.text import counted, shell_word

_MOST_STEPS = 3
_MOST_SEEN = 3
_LONGEST_WHY = 260
_SHORT_SENTENCE = 70
_SENTENCE = Pattern(r"(?<=[.?!])\s+(?=[A-Z0-9\"'(])")
_BLANK = Pattern(r"\b(?:PID|CORE|EXE)\b", words=("PID", "CORE", "EXE"))


def card_of(report: Report) -> Card:
    """Return the card of a report: its verdict, where, why, what to do, who else."""
    shown = report.highlights or Highlights()
    best = report.diagnoses[0] if report.diagnoses else None
    headline = shown.headline or report.verdict
    rows = shown.rows
    if not rows and not shown.places and best is not None:
        rows = _seen(best)
    return Card(
        headline=headline,
        failed=report.failed,
        places=shown.places,
        rows=rows,
        why="" if best is None else _why(best, headline),
        confidence=None if best is None else best.confidence,
        steps=(shown.steps if best is None else best.next_steps)[:_MOST_STEPS],
        rest=_rest(report, shown, headline),
        footer=_footer(report),
    )


def filled(report: Report) -> Report:
    """Return the report with what it knows in its next steps: a pid in place of ``PID``."""
    body = report.body
    process = body.get("process")
    known: dict[str, str] = {}
    if isinstance(process, dict) and isinstance(process.get("pid"), int):
        known["PID"] = str(process["pid"])
        if process.get("executable"):
            known["EXE"] = shell_word(str(process["executable"]))
    if report.kind == "core" and len(report.inputs) == 1:
        known["CORE"] = shell_word(report.inputs[0].path)
    return replace(report, diagnoses=tuple(_filled(one, known) for one in report.diagnoses))


def _filled(diagnosis: Diagnosis, known: dict[str, str]) -> Diagnosis:
    about = diagnosis.about
    if about is not None and about.pid is not None:
        known = {**known, "PID": str(about.pid)}
    if not known or not any(map(_BLANK.search, diagnosis.next_steps)):
        return diagnosis
    steps = (_BLANK.sub(lambda m: known.get(m[0], m[0]), one) for one in diagnosis.next_steps)
    return replace(diagnosis, next_steps=tuple(steps))


def _seen(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    return tuple((one.where, one.what) for one in diagnosis.evidence[:_MOST_SEEN])


def _why(best: Diagnosis, headline: str) -> str:
    """Return one sentence, two where the first is short; never what the headline says."""
    title = best.title.rstrip("…").casefold()
    if title and title not in headline.casefold():
        return best.title
    said, more = "", best.cause
    for sentence in _SENTENCE.split(best.cause):
        if said and (len(said) > _SHORT_SENTENCE or len(said) + len(sentence) > _LONGEST_WHY):
            break
        if sentence.rstrip(".").casefold() in headline.casefold():
            more = more[len(sentence) :].lstrip()
            continue
        said = f"{said} {sentence}".strip()
    return said


def _rest(report: Report, shown: Highlights, headline: str) -> str:
    """Return who else there is, and what else was found, in one line."""
    parts = [shown.rest] if shown.rest else []
    others = [
        one
        for one in report.diagnoses[1:]
        if one.role is Role.ROOT and one.title.casefold() not in headline.casefold()
    ]
    if others:
        parts.append(f"{others[0].title} ({others[0].confidence.value})")
        if len(others) > 1:
            parts.append(counted(len(others) - 1, "more finding"))
    return "; ".join(parts)


def _footer(report: Report) -> tuple[str, ...]:
    parts = list(filter(None, re.split(r" · ", report.footer or "")))
    parts = [part for part in parts if "-v" not in part and not part.startswith("--")]
    if report.problems:
        parts.append(counted(len(report.problems), "problem"))
    parts.append("-v shows all")
    return tuple(parts)
