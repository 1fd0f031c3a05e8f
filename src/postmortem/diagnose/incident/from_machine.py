"""Events that a report on hosts tells of: what grew while the job ran, what is full or down."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from postmortem.diagnose.incident.events import Event, EventType
from postmortem.diagnose.machine.health import meanings
from postmortem.facts.health import FILE_SYSTEM, NODE
from postmortem.report.model import Confidence, Evidence

_NO_ROOM = {"space_used_up": "no room is", "inodes_used_up": "no inode is"}


def of_doctor(document: Mapping[str, Any]) -> Iterator[Event]:
    """Yield what began to fail between two snapshots, and which file systems have no room.

    Old trouble of hardware explains no new end.
    """
    snapshot = document.get("snapshot")
    if snapshot is None:
        return
    yield from _full(snapshot)
    yield from _down(snapshot)
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


def _full(snapshot: Mapping[str, Any]) -> Iterator[Event]:
    rows = [row for row in snapshot["readings"] if row["name"] in _NO_ROOM and row["value"]]
    for row in rows:
        place = str(row["subject"])[len(FILE_SYSTEM) :]
        what = f"{_NO_ROOM[row['name']]} left in {place}: {row['detail']}"
        yield Event(
            EventType.FULL,
            what,
            "doctor",
            host=str(snapshot["host"]) or None,
            path=place,
            errnos=("ENOSPC",),
            confidence=Confidence.LIKELY if len(rows) == 1 else Confidence.POSSIBLE,
            evidence=(Evidence(str(row["command"]), what),),
            next_steps=(meanings()[row["name"]].fix.replace("FOLDER", shlex.quote(place)),),
        )


def _down(snapshot: Mapping[str, Any]) -> Iterator[Event]:
    for row in snapshot["readings"]:
        if row["name"] == "node_down" and row["value"]:
            host = str(row["subject"]).removeprefix(NODE)
            why = f": {row['detail']}" if row["detail"] else ""
            yield Event(
                EventType.NODE_DOWN,
                f"the scheduler calls {host} down{why}",
                "doctor",
                host=host,
                evidence=(Evidence(str(row["command"]), f"{row['subject']}{why}"),),
                next_steps=(meanings()[row["name"]].fix.replace("NODE", shlex.quote(host)),),
            )
