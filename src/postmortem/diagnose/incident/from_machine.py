"""Events that a report on a host's hardware tells of: what grew while the job ran."""

from collections.abc import Iterator, Mapping
from typing import Any

from postmortem.diagnose.incident.events import Event, EventType
from postmortem.report.model import Confidence, Evidence


def of_doctor(document: Mapping[str, Any]) -> Iterator[Event]:
    """Yield what began to fail between two snapshots; old trouble explains no new end."""
    snapshot = document.get("snapshot")
    if snapshot is None:
        return
    fixes = {check["name"]: check["fix"] for check in document["checks"]}
    failing = [row for row in document["changes"] if row["state"] == "failed"]
    for order, row in enumerate(failing):
        what = f"{row['subject']}: {row['words']}"
        fix = fixes.get(str(row["words"]).partition(":")[0])
        yield Event(
            EventType.HARDWARE,
            what,
            "doctor",
            host=str(snapshot["host"]),
            breaks=str(row["breaks"] or ""),
            confidence=Confidence.LIKELY,
            evidence=(Evidence(str(row["command"]), what),),
            next_steps=(fix,) if fix else (),
            order=order,
        )
