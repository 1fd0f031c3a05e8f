"""The fields of ``kind triage`` in the JSON report, as docs/report-schema.md lays them down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from postmortem.diagnose.incident.events import Event, EventType
from postmortem.diagnose.incident.incident import Judged
from postmortem.present.triage.words import restart, would_decide
from postmortem.records import record

Document = Mapping[str, Any]


@record
class Used:
    """One file, and what became of it."""

    path: str
    kind: str
    belongs: bool | None
    used: bool
    why: str | None
    verdict: str | None = None


def triage_body(
    judged: Judged,
    documents: Sequence[Document],
    files: Sequence[Used],
    apart: frozenset[int],
) -> dict[str, object]:
    """Return roots, chain, victims and candidates, and what was read and what not."""
    incident = judged.incident
    candidates = [
        {"rank": row["rank"], "label": row["label"], "why": row["why"]}
        for index, one in enumerate(documents)
        if index not in apart
        for row in one.get("candidates") or ()
    ]
    advice = restart(incident, documents)
    return {
        "roots": [
            {
                "id": index,
                "type": event.type.value,
                "what": event.what,
                "ranks": list(incident.ranks_of(index)),
                "host": event.host,
                "pid": event.pid,
                "confidence": event.confidence.value,
                "explains": len(incident.explained_by(index)),
            }
            for index in incident.roots
            for event in [incident.events[index]]
        ],
        "chain": [
            _step(index, event, judged)
            for index, event in enumerate(incident.events)
            if judged.document_of[index] not in apart
        ],
        "victims": [
            {"ranks": list(event.ranks), "why": event.what}
            for event in incident.events
            if event.type in (EventType.LOST_PEER, EventType.WATCHDOG)
        ],
        "candidates": candidates if not incident.roots else [],
        "would_decide": [] if incident.roots else list(would_decide(documents)),
        "restart": None if advice is None else {"advice": advice[0], "why": advice[1]},
        "evidence": [
            {
                "path": one.path,
                "kind": one.kind,
                "belongs": one.belongs,
                "used": one.used,
                "why": one.why,
                "verdict": one.verdict,
            }
            for one in files
        ],
    }


def _step(index: int, event: Event, judged: Judged) -> dict[str, object]:
    causes = judged.incident.causes_of(index)
    return {
        "id": index,
        "type": event.type.value,
        "what": event.what,
        "actor": event.actor,
        "ranks": list(event.ranks),
        "explained_by": [link.cause for link in causes],
        "confidence": event.confidence.value,
        "evidence": [{"where": one.where, "what": one.what} for one in event.evidence],
        "source": event.source,
    }
