"""A report's conclusion as a card: the one place where it is decided what the first screen says."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from postmortem.diagnose.names import clip, without_logger
from postmortem.facts.rank_sets import rank_words
from postmortem.patterns import Pattern
from postmortem.present.around import FOLDERS, with_neighbours
from postmortem.records import replace
from postmortem.report.card import Card, Highlights
from postmortem.report.model import Diagnosis, Report, Role
from postmortem.report.said import last_part, mostly_said, says_nothing_new, words_of
from postmortem.text import counted, shell_word

_MOST_STEPS = 3
_MOST_SEEN = 3
_LONGEST_SEEN = 150
_LONGEST_WHY = 260
_SHORT_SENTENCE = 70
_SENTENCE = Pattern(r"(?<=[.?!])\s+(?=[A-Z0-9\"'(])")
_CLAUSE_WORDS = 4
_CLAUSE = Pattern(r"(?=[:;] )")
_ALIKE = 0.6
DATA = Pattern(r'(?<=, )"((?:[^"\\]|\\.){12})(?:[^"\\]|\\.)+"(?:\.\.\.)?(?=, \d)')
"""What a call read or wrote, in front of its result; names of files stay whole."""
_CALL = Pattern(r"(?:pid \d+ )?\w+\(\d+")
_BLANK = Pattern(r"\b(?:PID|CORE|EXE|on its host|(?<=postmortem strace )LOG)\b")
_OF_RANK = Pattern(
    r"(?P<says>[\w. ]+ says: )?rank (?P<rank>\d+)(?P<host> on [\w.-]+)?(?P<said>(?(says)| ?:).*)"
)
"""Who a row is of, and what stands behind that."""


def card_of(report: Report) -> Card:
    """Return the card of a report: its verdict, where, why, what to do, who else."""
    shown = report.highlights or Highlights()
    headline = shown.headline or report.verdict
    best = _best(report, headline)
    rows, stands = shown.rows, ""
    remedies = dict.fromkeys(p.remedy for p in report.problems if p.remedy)
    steps = shown.steps or (tuple(remedies) if best is None else best.next_steps)
    if not rows and not shown.places:
        troubles = tuple((last_part(p.where), p.what) for p in report.problems[:_MOST_SEEN])
        rows, stands = _told_once(troubles if best is None else _seen(best), headline)
    why = "" if best is None else _why(best, headline, rows)
    if best is not None and not shown.rows and why and why != best.title:
        rows, why = _told_in(rows, why)
    card = Card(
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
    known = shown.excerpt
    return card if known is None or shown.places else with_neighbours(card, known)


def _best(report: Report, headline: str) -> Diagnosis | None:
    """Return the diagnosis that the headline speaks of: its own root, else the first.

    Of evidence that is damaged it is none where all are context: what was not read says more.
    """
    if report.failed and report.problems and all(d.role is Role.CONTEXT for d in report.diagnoses):
        return None
    roots = (one for one in report.diagnoses if one.role is Role.ROOT)
    named = (one for one in roots if one.title and one.title.casefold() in headline.casefold())
    return next(named, next(iter(report.diagnoses), None))


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
    if report.kind == "strace" and len(report.inputs) == 1 and report.inputs[0].path != "-":
        known["LOG"] = shell_word(report.inputs[0].path)
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
    rows = ((last_part(one.where), one.what) for one in diagnosis.evidence)
    return tuple(
        (where, clip(FOLDERS.sub("", without_logger(short_data(what))), _LONGEST_SEEN))
        for where, what in _of_all(rows)
    )[:_MOST_SEEN]


def short_data(what: str) -> str:
    """Return a call without most of what it read or wrote: its end has the result."""
    return DATA.sub(r'"\1…"', what) if _CALL.match(what) else what


def _of_all(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield one row for what several ranks said alike: ``ranks 0-2: Connection closed``."""
    alike: dict[object, list[tuple[str, str, int | None]]] = {}
    for where, what in rows:
        found = _OF_RANK.fullmatch(what)
        key: object = what if found is None else (found["says"], found["said"])
        rank = None if found is None else int(found["rank"])
        alike.setdefault(key, []).append((where, what, rank))
    for key, ones in alike.items():
        where, what, _ = ones[0]
        ranks = {rank for _, _, rank in ones if rank is not None}
        if len(ranks) > 1 and isinstance(key, tuple):
            what = f"{key[0] or ''}ranks {rank_words(ranks)}{key[1]}"
        yield where, what


def _told_once(
    rows: tuple[tuple[str, str], ...], headline: str
) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the rows that say something new, and the place of what the headline quotes."""
    kept: dict[str, tuple[str, str]] = {}
    stands = ""
    for place, value in rows:
        teller, _, told = value.rpartition(" says: ")
        said = f"{headline} {place.rpartition(':')[0].rpartition('/')[2]}"
        if says_nothing_new(told, said) or _plain(headline) in _plain(told):
            where = f"{teller}, {place}" if teller else place
            stands = stands or (where if place not in headline else "")
        else:
            kept.setdefault(_plain(value), (place, value))
    return tuple(kept.values()), stands


def _told_in(
    rows: tuple[tuple[str, str], ...], why: str
) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the rows that say more than the reason, and the reason with a place of the rest."""
    kept = tuple((place, value) for place, value in rows if not says_nothing_new(value, why))
    places = [place for place, value in rows if (place, value) not in kept]
    return kept, f"{why.rstrip('.')} ({places[0]})" if places else why


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".…")


def _why(best: Diagnosis, headline: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return one sentence, two where the first is short; never what stands above it."""
    title = best.title[len(best.lead) :]
    if not mostly_said(title, headline, _ALIKE) and not says_nothing_new(title, headline):
        return best.title
    above = "; ".join((headline, *(value for _, value in rows)))
    said = ""
    sentences = _SENTENCE.split(best.cause)
    # What says it all again, with more around it, is only said where nothing else is new.
    for whole in sorted(sentences, key=partial(says_nothing_new, headline)):
        new = (one for one in _CLAUSE.split(whole) if not _is_known_clause(one, headline))
        sentence = "".join(new).lstrip(":; ")
        if mostly_said(sentence, headline, _ALIKE) or says_nothing_new(sentence, above):
            continue
        longer = len(said) > _SHORT_SENTENCE or len(said) + len(sentence) > _LONGEST_WHY
        if said and (longer or says_nothing_new(headline, sentence)):
            break
        said = f"{said} {sentence}".strip()
    return said


def _is_known_clause(clause: str, headline: str) -> bool:
    return len(words_of(clause)) >= _CLAUSE_WORDS and says_nothing_new(clause, headline)


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
