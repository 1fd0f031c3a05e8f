"""Kind ``flight``: files of the numerics monitor, which kind ``logs`` has beside the ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from postmortem.facts.confidence import Confidence
from postmortem.report.contract import Shape
from postmortem.report.contract.scan import Numbers

if TYPE_CHECKING:
    from postmortem.diagnose.numerics.first_bad import Origin


class FirstBad(Shape):
    module: str
    class_name: str
    cell: str
    batch: int
    origin: Origin
    nan_count: int
    inf_count: int
    confidence: Confidence


class FlightFile(Shape):
    file: str
    rank: int
    world_size: int
    host: str
    batch: int | None
    ended: str | None
    first_bad: FirstBad | None
    """null where nothing is bad"""


class Cell(Shape):
    kind: str
    name: str
    note: str


class _TypedCell(Cell):
    dtype: str


class NumbersCell(Numbers, _TypedCell):
    masked: bool


class Frame(Shape):
    number: int
    batch: int
    phase: Literal["forward", "backward"]
    module: str
    class_name: str
    cells: list[Cell | NumbersCell]
    """numbers as in kind `scan`, where there are any"""


class FlightFrames(FlightFile):
    frames: list[Frame]
    """the oldest first"""


class Flight(Shape):
    flights: list[FlightFrames]
    """as in kind `logs`, and what the modules did"""
