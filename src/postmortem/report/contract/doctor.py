"""Kind ``doctor``: what this machine lacks for good evidence."""

from __future__ import annotations

from typing import Literal

from postmortem.report.contract import Shape


class Check(Shape):
    name: str
    status: Literal["ok", "warning", "missing", "failed"]
    """`failed`: hardware that fails"""
    found: str
    why: str
    fix: str | None
    command: str | None
    """shows the same"""


class Reading(Shape):
    subject: str
    """`GPU 0000:3b:00.0`, `disk sda`"""
    name: str
    """`ecc_uncorrected`, `filesystem_read_only`, …: 0, or a small number, where all is well"""
    value: int
    command: str
    detail: str


class Snapshot(Shape):
    """A host's health at one moment."""

    host: str
    boot: str | None
    """the kernel's id of this boot"""
    taken: float
    """seconds since 1970"""
    readings: list[Reading]


class Change(Shape):
    subject: str
    name: str
    words: str
    before: int
    after: int
    state: Literal["ok", "warning", "missing", "failed"]
    breaks: str | None
    """what it can break: `memory`, `gpu`, `disk`, `network`, `host`"""
    command: str


class Doctor(Shape):
    checks: list[Check]
    snapshot: Snapshot | None
    """with `--host` or `--gpu`"""
    since: float | None
    """when the earlier snapshot was taken; with `--since`"""
    changes: list[Change]
    """what grew since then"""
