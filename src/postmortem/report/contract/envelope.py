"""What reports of all kinds begin and end with."""

from __future__ import annotations

from typing import Literal

from postmortem.facts.confidence import Confidence, Outcome, Role
from postmortem.report.contract import Shape


class Tool(Shape):
    version: str


class Source(Shape):
    path: str
    size_bytes: int
    compression: str | None
    truncated: bool


class Evidence(Shape):
    where: str
    what: str


class Subject(Shape):
    pid: int | None
    rank: int | None
    host: str | None
    path: str | None
    errno: str | None
    signal: str | None


class Diagnosis(Shape):
    id: str
    """for `postmortem rules ID`"""
    title: str
    role: Role
    """`cascade`: died because something else did"""
    confidence: Confidence
    """the evidence states it, one known cause fits, or it is one of several"""
    cause: str
    next_steps: list[str]
    evidence: list[Evidence]
    references: list[str]
    about: Subject | None
    """whom and what it is about, where the evidence names them"""


class Problem(Shape):
    where: str
    what: str
    remedy: str | None


class Skipped(Shape):
    rule: str
    missing: str
    remedy: str | None


class Envelope(Shape):
    schema: Literal["postmortem/1"]
    kind: Literal[
        "core",
        "cores",
        "gpu_core",
        "strace",
        "logs",
        "scan",
        "flight",
        "triage",
        "hang",
        "watch",
        "gpu_memory",
        "net",
        "fleet",
        "doctor",
        "importing",
        "diff",
    ]
    tool: Tool
    inputs: list[Source]
    """the files that were read"""
    verdict: str
    """one sentence"""
    diagnoses: list[Diagnosis]
    """conclusions, the best first: a cascade or a context never stands before a root"""
    problems: list[Problem]
    """what could not be read. The rest of the report stands without it"""
    outcome: Outcome
    """what became of it: `healthy` where the evidence itself says that it went well, `unknown`
    where nothing in it settles that"""


class Tail(Shape):
    skipped: list[Skipped]
    """rules that lacked a fact"""
