"""File systems without room once a command has failed, and what that says of its error."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from postmortem.diagnose.incident.events import EventType
from postmortem.facts.health import Health
from postmortem.records import replace
from postmortem.report.card import Highlights
from postmortem.report.model import Report

if TYPE_CHECKING:
    from postmortem.run.folder import Evidence


def note_full(evidence: Evidence) -> dict[str, Any] | None:
    """Write down which file systems are full; return it as a report of `doctor`, None if none."""
    from postmortem.analyses.health import report_on
    from postmortem.readers.health.room import room_readings
    from postmortem.render import json as as_json

    full = tuple(row for row in room_readings() if row.value)
    if not full:
        return None
    text = as_json.as_text(report_on(Health(os.uname().nodename, None, time.time(), full)))
    evidence.text("doctor.json", text)
    document: dict[str, Any] = json.loads(text)
    return document


def with_room(report: Report, full: dict[str, Any] | None) -> Report:
    """Return a report that begins with what is full, where its error says so or may mean it."""
    if full is None:
        return report
    from postmortem.diagnose.incident.incident import judge
    from postmortem.readers.signatures import Signatures
    from postmortem.render import json as as_json

    known_in = Signatures.load("process text").matches
    incident = judge([json.loads(as_json.as_text(report)), full], known_in).incident
    roots = (incident.events[root] for root in incident.roots)
    cause = next((one for one in roots if one.type is EventType.FULL), None)
    if cause is None:
        return report
    shown = report.highlights or Highlights()
    first = (
        replace(one, next_steps=(*cause.next_steps, *one.next_steps))
        for one in report.diagnoses[:1]
    )
    return replace(
        report,
        verdict=f"{cause.what}: {report.verdict}",
        highlights=replace(shown, headline=f"{cause.what}: {shown.headline or report.verdict}"),
        diagnoses=(*first, *report.diagnoses[1:]),
    )
