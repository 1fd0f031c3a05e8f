"""``postmortem doctor --host --gpu``: whether the hardware fails, now and since an earlier time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from postmortem.diagnose.machine.health import Change, changes, health_checks
from postmortem.errors import EvidenceError
from postmortem.facts.health import Health, Reading
from postmortem.facts.source import Source
from postmortem.present.doctor.report import doctor_blocks, doctor_highlights
from postmortem.present.headline.health import headline
from postmortem.readers.own_reports import read_own_report
from postmortem.report.contract import fill
from postmortem.report.contract.doctor import Doctor
from postmortem.report.model import Report


def analyse(*, host: bool, gpu: bool, since: str | None = None) -> Report:
    """Return the report on this machine's hardware; raises EvidenceError for a bad snapshot."""
    from postmortem.readers.health import read_health

    before = None if since is None else earlier(since)
    now = read_health(host=host, gpu=gpu)
    if before is not None and before.host != now.host:
        what = f"is a snapshot of {before.host}, and this is {now.host}"
        raise EvidenceError(since or "", what, hint="compare each host with its own past")
    return report_on(now, before)


def analyse_files(paths: Sequence[str]) -> Report:
    """Return the report on what tools of GPUs printed; raises EvidenceError for another file."""
    from postmortem.readers.health.recorded import recorded_health

    now, before = recorded_health(paths)
    return report_on(now, before, tuple(Source(one, Path(one).stat().st_size) for one in paths))


def earlier(path: str) -> Health:
    """Return the snapshot in a report of ``doctor --json``; raises EvidenceError."""
    document = read_own_report(path)
    if isinstance(document, EvidenceError):
        raise document
    snapshot: dict[str, Any] | None = document.get("snapshot")
    if document["kind"] != "doctor" or snapshot is None:
        hint = "postmortem doctor --host --gpu --json -o FILE writes one"
        raise EvidenceError(path, "holds no snapshot of a host", hint=hint)
    readings = tuple(Reading(**row) for row in snapshot["readings"])
    return Health(snapshot["host"], snapshot["boot"], snapshot["taken"], readings)


def report_on(now: Health, before: Health | None = None, inputs: tuple[Source, ...] = ()) -> Report:
    """Return the report; failed if something fails that was read, or began to since `before`."""
    grown: tuple[Change, ...] = () if before is None else changes(before, now)
    found = health_checks(now, grown)
    return Report(
        kind="doctor",
        inputs=inputs,
        verdict=headline(now, found, before),
        failed=any(check.status == "failed" for check in found),
        diagnoses=(),
        blocks=doctor_blocks(found),
        body=fill(Doctor, checks=found, snapshot=now, since=before and before.taken, changes=grown),
        problems=now.problems,
        highlights=doctor_highlights(found, first_said=True),
    )
