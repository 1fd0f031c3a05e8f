"""What reports of all kinds begin and end with."""

from __future__ import annotations

from typing import Literal

from postmortem.facts.confidence import Outcome
from postmortem.facts.source import Problem, Source
from postmortem.report import model
from postmortem.report.contract import Shape
from postmortem.report.model import Skipped


class Tool(Shape):
    version: str


class Evidence(Shape, of=model.Evidence, without=("frame",)):
    pass


class Diagnosis(Shape, of=model.Diagnosis, without=("lead", "verdict", "topic", "survived")):
    evidence: list[Evidence]


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
