"""Kind ``diff``: where two flight files or traces part."""

from __future__ import annotations

from postmortem.report.contract import Shape


class Difference(Shape):
    batch: int
    """in A"""
    phase: str
    """`forward`, `backward`, `optimizer` or `batch`"""
    module: str
    class_name: str
    kind: str
    """`weight`, `input`, `output`, `gradient` or `state`"""
    name: str
    what: str
    relative: float
    """of the largest |x|; infinite where shapes differ, or only one is finite"""


class Diff(Shape):
    tolerance: float
    compared: int
    """calls of modules that are in both"""
    only_a: list[str]
    """modules whose calls only A has, in batches that both have"""
    only_b: list[str]
    first: Difference | None
    """the first that differs by more than the tolerance"""
    beside: list[Difference]
    """what else differs so in the same call"""
    unequal: Difference | None
    """the first that differs at all"""
    worst: list[Difference]
    """what differs most, a row for each module, 20 at most"""
