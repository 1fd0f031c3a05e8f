"""Flight files as JSON: in ``kind logs`` beside the ranks, in ``kind flight`` with their frames."""

from collections.abc import Iterable

from postmortem.diagnose.numerics.first_bad import FirstBad
from postmortem.facts.frames import Cell, Flight, Frame
from postmortem.report.contract import fill
from postmortem.report.contract import flight as shapes


def flight_row(one: Flight, bad: FirstBad | None) -> dict[str, object]:
    """Return which process wrote a flight file, how it ended, and what went bad first."""
    return fill(shapes.FlightFile, one.recorder, file=one.path, first_bad=bad)


def frame_rows(frames: Iterable[Frame]) -> list[dict[str, object]]:
    """Return frames, the oldest first."""
    return [
        fill(
            shapes.Frame,
            frame,
            phase=frame.phase.name.lower(),
            cells=[_cell(cell) for cell in frame.cells],
        )
        for frame in frames
    ]


def _cell(cell: Cell) -> dict[str, object]:
    kind = cell.kind.name.lower()
    if cell.numbers is None:
        return fill(shapes.Cell, cell, kind=kind, note=cell.remark)
    return fill(
        shapes.NumbersCell,
        cell.numbers,
        kind=kind,
        name=cell.name,
        note=cell.remark,
        masked=cell.masked,
    )
