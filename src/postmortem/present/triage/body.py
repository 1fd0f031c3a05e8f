"""The fields of ``kind triage`` in the JSON report."""

from collections.abc import Mapping, Sequence
from typing import Any

from postmortem.diagnose.incident.events import Event, EventType
from postmortem.diagnose.incident.incident import Judged, ranks_of
from postmortem.diagnose.incident.runs import Runs
from postmortem.facts.inventory import Used
from postmortem.present.triage.words import restart, would_decide
from postmortem.report.contract import fill
from postmortem.report.contract import triage as shapes
from postmortem.report.model import Confidence

Document = Mapping[str, Any]


def triage_body(
    judged: Judged,
    documents: Sequence[Document],
    files: Sequence[Used],
    apart: frozenset[int],
    runs: Runs,
) -> dict[str, object]:
    """Return roots, chain, victims and candidates, and what was read and what not."""
    incident = judged.incident
    candidates = [
        fill(shapes.Candidate, None, **{key: row[key] for key in ("rank", "label", "why")})
        for index, one in enumerate(documents)
        if index not in apart
        for row in one.get("candidates") or ()
    ]
    advice = restart(incident, documents, runs)
    roots = [
        fill(
            shapes.Root,
            event,
            id=index,
            ranks=list(ranks_of(incident, index)),
            explains=len(incident.explained_by(index)),
        )
        for index in incident.roots
        for event in [incident.events[index]]
    ]
    return fill(
        shapes.Triage,
        roots=roots,
        chain=[
            _step(index, event, judged)
            for index, event in enumerate(incident.events)
            if judged.document_of[index] not in apart
        ],
        victims=[
            fill(shapes.Victim, event, why=event.what)
            for event in incident.events
            if event.type in (EventType.LOST_PEER, EventType.WATCHDOG)
        ],
        candidates=candidates if not roots else [],
        would_decide=[] if roots else list(would_decide(documents)),
        restart=None if advice is None else fill(shapes.Restart, advice=advice[0], why=advice[1]),
        evidence=files,
        runs=[
            fill(shapes.Run, end, name=end.run.name, files=list(end.run.paths)) for end in runs.ends
        ],
    )


def _step(index: int, event: Event, judged: Judged) -> dict[str, object]:
    links = judged.incident.causes_of(index)
    causes = [link.cause for link in links if link.confidence is not Confidence.POSSIBLE]
    return fill(shapes.Step, event, id=index, explained_by=causes)
