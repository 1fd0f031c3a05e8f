"""Kind ``fleet``: what all nodes of a job answered to one command."""

from __future__ import annotations

from postmortem.report.contract import Shape


class Silent(Shape):
    node: str
    why: str


class Group(Shape):
    outcome: str
    diagnoses: list[str]
    """their ids"""
    verdict: str
    """of the first of its nodes"""
    nodes: list[str]


class Standing(Shape):
    frames: list[str]
    """the innermost first"""
    doing: str
    ranks: list[int]
    processes: int
    """with those that have no rank"""
    nodes: list[str]


class Example(Shape):
    node: str
    path: str


class Crash(Shape):
    hash: str
    summary: str
    count: int
    ranks: list[int]
    nodes: list[str]
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
