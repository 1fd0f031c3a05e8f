"""Calls of modules as the native code gives them; frames are made of the few that are printed."""

from typing import Any, NamedTuple

from postmortem.facts.frames import Cell, CellKind, Frame, Phase


class Call(NamedTuple):
    """One call of a module all of whose numbers are here and finite."""

    number: int
    batch: int
    module: str
    class_name: str
    opens_batch: bool
    weights: list[Any]
    """Names and numbers in turns; what has no numbers has a note there."""
    pairs: list[Any]
    """The same of inputs, then outputs."""
    inputs: int
    """How many of the pairs are inputs."""


def frame_of(call: Call | Frame) -> Frame:
    """Return the frame of a call."""
    if isinstance(call, Frame):
        return call
    edge = 2 * call.inputs
    cells = _cells(CellKind.WEIGHT, call.weights)
    cells += _cells(CellKind.INPUT, call.pairs[:edge])
    cells += _cells(CellKind.OUTPUT, call.pairs[edge:])
    return Frame(
        call.number,
        call.batch,
        call.module,
        call.class_name,
        cells,
        Phase.FORWARD,
        call.opens_batch,
    )


def _cells(kind: CellKind, pairs: list[Any]) -> list[Cell]:
    return [
        Cell(kind, name, None, detail=what) if isinstance(what, str) else Cell(kind, name, what)
        for name, what in zip(pairs[::2], pairs[1::2], strict=True)
    ]
