"""Kind ``fleet``: what all nodes of a job answered to one command."""

from __future__ import annotations

from postmortem.facts import fleet
from postmortem.facts.fleet import Silent
from postmortem.report.contract import Shape


class Group(Shape, of=fleet.Group, without=("ids", "words")):
    diagnoses: list[str]
    """their ids"""


class Standing(Shape, of=fleet.Standing, without=("unnumbered",)):
    processes: int
    """with those that have no rank"""


class Example(Shape):
    node: str
    path: str


class Crash(Shape, of=fleet.Crash):
    example: Example


class Kept(Shape):
    hash: str
    path: str
    size_bytes: int


class Fleet(Shape):
    command: str
    """``hang``, ``doctor``, ``net`` or ``collect``"""
    engine: str
    nodes_asked: int
    nodes_answered: int
    silent: list[Silent]
    """nodes without a report"""
    groups: list[Group]
    """nodes whose reports say the same, numbers apart"""
    standing: list[Standing]
    """of ``hang``: where main threads stand"""
    crashes: list[Crash]
    """of ``collect``"""
    kept: list[Kept]
    """slim cores that were fetched"""
