"""A report's conclusion as a card: the one place where it is decided what the first screen says."""

from collections.abc import Mapping
from typing import Any

from postmortem.diagnose.names import clip
from postmortem.patterns import Pattern
from postmortem.records import replace
from postmortem.report.card import Card, Highlights
from postmortem.report.model import Diagnosis, Report, Role
from postmortem.text import counted, shell_word

_MOST_STEPS = 3
_MOST_SEEN = 3
_LONGEST_SEEN = 150
_LONGEST_WHY = 260
_SHORT_SENTENCE = 70
_SENTENCE = Pattern(r"(?<=[.?!])\s+(?=[A-Z0-9\"'(])")
_WORD = Pattern(r"[\w./-]+")
_ALIKE = 0.6
_LEAST_ALIKE = 24
"""Characters from which on words that stand twice are no accident."""
_FOLDERS = Pattern(r"(?<=[\s\[(])/(?:[\w.+-]+/)+(?=[\w.+-]+\.(?:cc|cpp|cu|cuh|c|h|hpp):\d)")
"""Of a source file, of which a card has no room: mostly those of the machine that built it."""
_BLANK = Pattern(r"\b(?:PID|CORE|EXE|on its host)\b")


def card_of(report: Report) -> Card:
    """Return the card of a report: its verdict, where, why, what to do, who else."""
    shown = report.highlights or Highlights()
    best = report.diagnoses[0] if report.diagnoses else None
    headline = shown.headline or report.verdict
    rows, stands = shown.rows, ""
    steps = shown.steps or (() if best is None else best.next_steps)
    why = "" if best is None else _why(best, headline)
    if not rows and not shown.places:
        troubles = tuple((last_part(p.where), p.what) for p in report.problems[:_MOST_SEEN])
        rows, stands = _told_once(troubles if best is None else _seen(best), headline, why)
    return Card(
        headline=f"{headline} ({stands})" if stands else headline,
        failed=report.failed,
        places=tuple({(p.file, p.line, p.function): p for p in reversed(shown.places)}.values())[
            ::-1
        ],
        rows=rows,
        why=why,
        confidence=None if best is None else best.confidence,
        steps=tuple(" ".join(one.split()) for one in steps[:_MOST_STEPS]),
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
    told = [_filled(one, known) for one in report.diagnoses]
    if report.kind == "logs" and told and told[0].role is Role.ROOT:
        told[0] = _filled(told[0], _of_culprit(body))
    return replace(report, diagnoses=tuple(told))


def _of_culprit(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the pid and the host of the one rank that failed first, if it has not ended."""
    first = body.get("first_failure") or {}
    ranks = first.get("ranks") or ()
    pids = [one for one in body.get("pids") or () if one["own"] and one["rank"] in ranks]
    ended = {one["pid"] for one in body.get("exits") or ()}
    if len(ranks) != 1 or len(pids) != 1 or pids[0]["pid"] in ended:
        return {}
    host = pids[0]["host"] or first.get("host")
    return {"PID": str(pids[0]["pid"]), **({"on its host": f"on {host}"} if host else {})}


def _filled(diagnosis: Diagnosis, known: dict[str, str]) -> Diagnosis:
    about = diagnosis.about
    if about is not None and about.pid is not None:
        known = {**known, "PID": str(about.pid)}
    if not known or not any(map(_BLANK.search, diagnosis.next_steps)):
        return diagnosis
    steps = (_BLANK.sub(lambda m: known.get(m[0], m[0]), one) for one in diagnosis.next_steps)
    return replace(diagnosis, next_steps=tuple(steps))


def _seen(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    return tuple(
        (last_part(one.where), clip(_FOLDERS.sub("", one.what), _LONGEST_SEEN))
        for one in diagnosis.evidence[:_MOST_SEEN]
    )


def _told_once(
    rows: tuple[tuple[str, str], ...], headline: str, why: str
) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the rows that say something new, and the place of what the headline quotes."""
    kept: dict[str, tuple[str, str]] = {}
    stands = ""
    for place, value in rows:
        text = _plain(value)
        if len(text) >= _LEAST_ALIKE and (text in _plain(headline) or _plain(headline) in text):
            stands = stands or (place if place not in headline else "")
        elif len(text) < _LEAST_ALIKE or text not in _plain(why):
            kept.setdefault(text, (place, value))
    return tuple(kept.values()), stands


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".…")


def last_part(where: str) -> str:
    """Return a place without the folders of its file: ``job.log:11``."""
    return where.rsplit("/", 1)[-1] if where.startswith("/") else where


def _why(best: Diagnosis, headline: str) -> str:
    """Return one sentence, two where the first is short; never what the headline says."""
    if not _is_said(best.title[len(best.lead) :], headline):
        return best.title
    said = ""
    for sentence in _SENTENCE.split(best.cause):
        if _is_said(sentence, headline):
            continue
        if said and (len(said) > _SHORT_SENTENCE or len(said) + len(sentence) > _LONGEST_WHY):
            break
        said = f"{said} {sentence}".strip()
    return said


def _is_said(sentence: str, headline: str) -> bool:
    """Return whether nearly all words of a sentence stand in the headline already."""
    known = {word.casefold().strip("…") for word in _WORD.findall(headline)}
    words = [word.casefold().strip("…") for word in _WORD.findall(sentence)]
    return sum(word in known for word in words) >= _ALIKE * len(words)


def _rest(report: Report, shown: Highlights, headline: str) -> str:
    """Return who else there is, and what else was found, in one line."""
    parts = [shown.rest] if shown.rest else []
    if report.kind == "triage":  # the chain has them
        return "".join(parts)
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
    parts = list(report.footer)
    if report.problems:
        parts.append(counted(len(report.problems), "problem"))
    parts.append("-v shows all")
    return tuple(parts)
