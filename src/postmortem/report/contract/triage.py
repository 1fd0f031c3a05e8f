"""Kind ``triage``: the reports of all kinds of evidence, joined into one incident."""

from __future__ import annotations

from typing import Literal

from postmortem.facts.confidence import Confidence
from postmortem.facts.inventory import Used
from postmortem.report.contract import Shape
from postmortem.report.contract.envelope import Evidence


class Root(Shape):
    id: int
    type: str
    what: str
    ranks: list[int]
    host: str | None
    pid: int | None
    confidence: Confidence
    explains: int
    """how many other events"""


class Step(Shape):
    id: int
    type: str
    what: str
    actor: str
    ranks: list[int]
    explained_by: list[int]
    """ids, the surest first"""
    confidence: Confidence
    evidence: list[Evidence]
    source: str
    """the kind of report"""


class Victim(Shape):
    ranks: list[int]
    why: str


class Candidate(Shape):
    rank: int | None
    label: str
    why: str


class Restart(Shape):
    advice: Literal["stop", "restart"]
    """stop: the same will happen again"""
    why: str


class Run(Shape):
    name: str
    files: list[str]
    outcome: str
    verdict: str
    again: bool
    """a later run of its series began after its end"""
    judged: bool
    """the roots and the chain are those of this run"""


class Triage(Shape):
    roots: list[Root]
    """failing events that nothing explains, the one that explains most first. Several roots are
    several culprits"""
    chain: list[Step]
    """all events"""
    victims: list[Victim]
    """who ended because of another one"""
    candidates: list[Candidate]
    """filled where it cannot be decided"""
    would_decide: list[str]
    """filled where it cannot be decided: what would settle it"""
    restart: Restart | None
    """whether to start the job again; null where nothing failed"""
    evidence: list[Used]
    """every file"""
    runs: list[Run]
    """in the order of their ends; filled where the logs are of several runs or jobs"""
