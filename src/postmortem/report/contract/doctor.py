"""Kind ``doctor``: what this machine lacks for good evidence."""

from __future__ import annotations

from typing import Literal

from postmortem.report.contract import Shape


class Check(Shape):
    name: str
    status: Literal["ok", "warning", "missing"]
    found: str
    why: str
    fix: str | None


class Doctor(Shape):
    checks: list[Check]
