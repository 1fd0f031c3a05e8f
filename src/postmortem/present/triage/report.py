"""The report on an incident: verdict, chain, who else, what to do, what was read."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from postmortem.diagnose.incident.common import root_of
from postmortem.diagnose.incident.events import Event
from postmortem.diagnose.incident.incident import Judged
from postmortem.diagnose.incident.runs import Runs
from postmortem.facts.inventory import Used
from postmortem.facts.source import Problem, Source
from postmortem.present.headline.incident import headline
from postmortem.present.triage.body import triage_body
from postmortem.present.triage.card import triage_highlights
from postmortem.present.triage.runs import before_verdict, runs_block
from postmortem.present.triage.words import chain, next_steps, restart, step_words, would_decide
from postmortem.report.blocks import Block, KeyValues, Note, Table, Tone
from postmortem.report.model import Confidence, Diagnosis, Evidence, Outcome, Report, Role, ordered
from postmortem.text import counted

Document = Mapping[str, Any]

_FILES_SHOWN = 12
_STEPS_SHOWN = 8


def triage_report(
    judged: Judged,
    documents: Sequence[Document],
    files: Sequence[Used],
    runs: Runs,
    *,
    inputs: tuple[Source, ...],
    problems: tuple[Problem, ...],
    read: bool,
    verbose: bool,
) -> Report:
    """Return the report; `documents` are those of all evidence, in the order that was judged.

    Unless all of it was `read`, nothing is healthy.
    """
    apart = frozenset((*judged.foreign, *judged.apart))
    mine = [one for index, one in enumerate(documents) if index not in apart]
    told = mine or list(documents)
    failed = bool(judged.incident.roots) or any(_is_bad(one) for one in told)
    healthy = not failed and read and all(one.get("outcome") == "healthy" for one in told)
    whole = tuple(dict.fromkeys(problems))
    return Report(
        kind="triage",
        inputs=inputs,
        verdict=before_verdict(runs) + headline(judged.incident, told, read=read),
        failed=failed,
        diagnoses=tuple(_diagnoses(judged, documents, apart)),
        blocks=(*_blocks(judged, told, files, runs, verbose=verbose), *runs_block(runs)),
        body=triage_body(judged, documents, files, apart, runs),
        problems=whole,
        footer=(_footer(files),),
        settled=Outcome.HEALTHY if healthy else None,
        highlights=triage_highlights(judged.incident, told, runs),
    )


def _is_bad(document: Document) -> bool:
    root = root_of(document)
    if document["kind"] == "scan" and root is not None:
        return bool(root["confidence"] != Confidence.POSSIBLE)  # Inf where it may be meant
    return document.get("outcome") == "failed" or root is not None


def _diagnoses(
    judged: Judged, documents: Sequence[Document], apart: frozenset[int]
) -> Iterator[Diagnosis]:
    """Return what each report concluded: of a root as a root, of what a root explains as such."""
    incident = judged.incident
    explained = {link.effect for link in incident.links if link.confidence != "possible"}
    first = [incident.events[index].cause for index in incident.roots]
    later = {incident.events[index].cause for index in explained} - {""}
    of_root = {judged.document_of[index] for index in incident.roots}
    of_effect = {judged.document_of[index] for index in explained} - of_root
    found: list[Diagnosis] = []
    for index, document in enumerate(documents):
        if index in apart:
            continue
        for row in document.get("diagnoses", ()):
            role = Role(row["role"])
            if row["cause"] in first:
                role = Role.ROOT
            elif role is Role.ROOT and not _is_bad(document):
                role = Role.CONTEXT
            elif role is Role.ROOT and (
                index in of_effect or row["cause"] in later or (first and index not in of_root)
            ):
                role = Role.CASCADE
            found.append(
                Diagnosis(
                    id=str(row["id"]),
                    title=str(row["title"]),
                    role=role,
                    confidence=Confidence(row["confidence"]),
                    cause=str(row["cause"]),
                    next_steps=tuple(map(str, row["next_steps"])),
                    evidence=tuple(
                        Evidence(str(e["where"]), str(e["what"])) for e in row["evidence"]
                    ),
                    references=tuple(map(str, row.get("references", ()))),
                )
            )
    found.sort(key=lambda d: first.index(d.cause) if d.cause in first else len(first))
    yield from ordered(found)


def _blocks(
    judged: Judged,
    documents: Sequence[Document],
    files: Sequence[Used],
    runs: Runs,
    *,
    verbose: bool,
) -> Iterator[Block]:
    incident = judged.incident
    rows: list[tuple[str, str]] = []
    for root in incident.roots[: None if verbose else 3]:
        for place, index in enumerate(chain(incident, root)[: None if verbose else _STEPS_SHOWN]):
            event = incident.events[index]
            rows.append(("chain" if not rows else "", _arrow(place, event)))
            rows += [("", f"    {_cited(one, event)}") for one in event.evidence[:1]]
    advice = restart(incident, documents, runs)
    if advice is not None:
        rows.append(("restart", f"{advice[0].upper()}: {advice[1]}"))
    if not incident.roots:
        candidates = [row for one in documents for row in one.get("candidates") or ()]
        for row in candidates[:8]:
            who = f"rank {row['rank']}" if row["rank"] is not None else row["label"]
            rows.append(("candidates" if row is candidates[0] else "", f"{who}: {row['why']}"))
        if any(_is_bad(one) for one in documents):
            rows += [
                ("would decide" if i == 0 else "", words)
                for i, words in enumerate(would_decide(documents))
            ]
    steps = list(next_steps(incident)) if len(documents) > 1 and verbose else []
    rows += [("next" if i == 0 else "", step) for i, step in enumerate(steps)]
    if rows:
        yield KeyValues(tuple(rows))
    yield from _files(files, verbose=verbose)


def _cited(one: Evidence, event: Event) -> str:
    return one.where if one.what == event.what else f"{one.where}  {one.what}"


def _arrow(place: int, event: Event) -> str:
    return f"{'→ ' if place else ''}{step_words(event)}"


def _files(files: Sequence[Used], *, verbose: bool) -> Iterator[Block]:
    told = [one for one in files if one.used or one.belongs is False or one.verdict]
    shown = files if verbose else told[:_FILES_SHOWN]
    rows = tuple(
        (_name(one.path), one.kind, "yes" if one.used else "no", one.why or one.verdict or "")
        for one in shown
    )
    if rows:
        yield Table(("file", "kind", "used", "what it says, or why not"), rows, "evidence")
    left = len(files) - len(rows)
    if left > 0:
        kinds = Counter(one.kind for one in files if one not in shown)
        words = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(4))
        yield Note(f"{counted(left, 'more file')} ({words}): -v lists them", Tone.QUIET)


def _name(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[-2:])


def _footer(files: Sequence[Used]) -> str:
    used = sum(one.used for one in files)
    return f"{used} of {counted(len(files), 'file')} read"
