"""Kind ``doctor``: what this machine lacks for good evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postmortem.facts.health import Health
from postmortem.report.contract import Shape

if TYPE_CHECKING:
    from postmortem.diagnose.machine.check import Check
    from postmortem.diagnose.machine.health import Change


class Snapshot(Shape, of=Health, without=("problems",)):
    """A host's health at one moment."""


class Doctor(Shape):
    checks: list[Check]
    snapshot: Snapshot | None
    """with `--host` or `--gpu`"""
    since: float | None
    """when the earlier snapshot was taken; with `--since`"""
    changes: list[Change]
    """what grew since then"""
