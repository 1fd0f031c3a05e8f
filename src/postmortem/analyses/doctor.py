"""The report of `postmortem doctor`: what this machine lacks for good evidence."""

from __future__ import annotations

from postmortem.analyses.checks import Check, checks
from postmortem.facts.machine import Machine
from postmortem.report.blocks import Block, KeyValues, Table
from postmortem.report.card import Highlights
from postmortem.report.contract import fill
from postmortem.report.contract.doctor import Doctor
from postmortem.report.model import Report

_CORE_CHECKS = ("core limit", "core_pattern", "coredump_filter")
"""Where "missing" means that no core, or none with a stack, comes into our hands."""


def analyse(*, gdb: str | None = None) -> Report:
    """Return the report on this machine; `gdb` is the one asked for, if any."""
    from postmortem.readers.machine import read_machine

    return report_on(read_machine(gdb=gdb))


def report_on(machine: Machine) -> Report:
    """Return the report on a machine's facts; failed if a crash leaves nothing to explain."""
    found = tuple(checks(machine))
    fatal = any(check.fatal and check.status == "missing" for check in found)
    nothing = any(check.name in _CORE_CHECKS and check.status == "missing" for check in found)
    return Report(
        kind="doctor",
        inputs=(),
        verdict=_verdict(found, fatal=fatal),
        failed=fatal or nothing,
        diagnoses=(),
        blocks=tuple(_blocks(found)),
        body=fill(Doctor, checks=found),
        highlights=_highlights(found),
    )


def _highlights(found: tuple[Check, ...]) -> Highlights:
    """Return what is missing, the worst first, and how to get it."""
    lacking = [c for status in ("missing", "warning") for c in found if c.status == status]
    steps = (check.fix for check in lacking if check.fix)
    return Highlights(
        rows=tuple((check.name, check.found) for check in lacking),
        steps=tuple(dict.fromkeys(steps)),
    )


def _verdict(found: tuple[Check, ...], *, fatal: bool) -> str:
    missing = [check.name for check in found if check.status == "missing"]
    warnings = [check.name for check in found if check.status == "warning"]
    if fatal:
        needed = [check.name for check in found if check.fatal and check.status == "missing"]
        return f"postmortem core cannot work here without: {', '.join(needed)}"
    if stopped := [name for name in missing if name in _CORE_CHECKS]:
        others = [name for name in missing if name not in _CORE_CHECKS]
        also = f"; also missing: {', '.join(others)}" if others else ""
        return f"a crash here leaves no core to explain, because of: {', '.join(stopped)}{also}"
    if missing:
        return f"a crash here leaves a core; missing to explain it well: {', '.join(missing)}"
    if warnings:
        return f"a crash here leaves evidence; it could be better: {', '.join(warnings)}"
    return "this machine is ready: a crash leaves a core, and it can be explained in full"


def _blocks(found: tuple[Check, ...]) -> list[Block]:
    blocks: list[Block] = []
    for status in ("missing", "warning"):
        for check in found:
            if check.status == status:
                rows = [("found", check.found), ("why", check.why)]
                if check.fix:
                    rows.append(("fix", check.fix))
                blocks.append(KeyValues(tuple(rows), title=f"{check.name}: {status}"))
    good = tuple((check.name, check.found) for check in found if check.status == "ok")
    if good:
        blocks.append(Table(("check", "found"), good, title="in order"))
    return blocks
