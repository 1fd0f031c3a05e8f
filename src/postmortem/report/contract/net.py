"""Kind ``net``: what nodes saw of each other."""

from __future__ import annotations

from postmortem.facts import net
from postmortem.facts.net import Collective, Misnamed, Node, Probe, Speed, Target
from postmortem.report.contract import Shape


class Stage(Shape, of=net.Stage, without=("count", "rounds", "failed", "lacking")):
    detail: str


class Probes(Shape):
    tried: int
    failed: list[Probe]
    second_try: list[Probe]
    """worked, after the first had failed"""


class Lost(Shape, of=net.Lost, without=("how", "stage", "said")):
    when: str
    """`never came`, or how it left and in which stage"""


class Net(Shape):
    world_size: int
    nodes: list[Node]
    stages: list[Stage]
    rounds: int
    """of probes: pairs of one round do not disturb each other"""
    probes: Probes
    speeds: list[Speed]
    collectives: list[Collective]
    """each node's part in an all-reduce of PyTorch"""
    lost: list[Lost]
    """nodes that did not come, or left before the end"""
    misnamed: list[Misnamed]
    """nodes that take another's name for addresses which that one does not have"""
    target: Target | None
    """the host and port that were to be reached, or listened at"""
