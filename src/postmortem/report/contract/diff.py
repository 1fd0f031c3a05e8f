"""Kind ``diff``: where two flight files or traces part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postmortem.report.contract import Shape

if TYPE_CHECKING:
    from postmortem.diagnose.numerics.parting import Difference


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
