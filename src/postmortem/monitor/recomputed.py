"""Recomputations of activation checkpointing, compared with the pass that they repeat.

Both passes are given the same inputs and weights, and should give the same numbers. Where a module
was given the same and gave something else, it is not deterministic (an RNG that is not restored,
atomic additions) or the hardware is wrong; either way gradients belong to another pass than the
loss.
"""

import logging
from collections import deque
from collections.abc import Iterable
from typing import Any

from postmortem.facts.frames import Cell, CellKind, Frame, Numbers
from postmortem.monitor.calls import Call, frame_of
from postmortem.monitor.scans import Scans
from postmortem.monitor.walk import inputs_of, outputs_of

log = logging.getLogger("postmortem.monitor")
_MOST_PENDING = 4096


class Recomputed:
    """Compares calls of modules with their repetitions once the numbers of both are here."""

    def __init__(self) -> None:
        self.differing = 0
        """How many calls gave something else the second time."""
        self._pending: deque[tuple[Call | Frame, list[Cell]]] = deque(maxlen=_MOST_PENDING)
        self._said = False

    def take(
        self,
        first: Call | Frame,
        scans: Scans,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
    ) -> None:
        """Take a call of a first pass, and what the same module read and wrote in the second."""
        again: list[Cell] = []
        scans.cells(CellKind.INPUT, inputs_of(args, kwargs), again)
        scans.cells(CellKind.OUTPUT, outputs_of(output), again)
        self._pending.append((first, again))

    def settle(self, *, wait: bool = False) -> None:
        """Compare those whose numbers have come from a device."""
        while self._pending:
            first, again = self._pending[0]
            cells = [*first.cells, *again] if isinstance(first, Frame) else again
            if not wait and not all(map(_ready, cells)):
                return
            self._pending.popleft()
            self._compare(frame_of(first), again)

    def _compare(self, first: Frame, again: list[Cell]) -> None:
        for kind in (CellKind.INPUT, CellKind.OUTPUT):
            pairs = [_of(kind, first.cells), _of(kind, again)]
            if [cell.name for cell in pairs[0]] != [cell.name for cell in pairs[1]]:
                return
            differ = [
                (cell, other)
                for cell, other in zip(*pairs, strict=True)
                if not _same(cell.numbers, other.numbers)
            ]
            if differ and kind is CellKind.INPUT:  # of another call, or another module's doing
                return
            if differ:
                self._differs(first, *differ[0])

    def _differs(self, first: Frame, cell: Cell, other: Cell) -> None:
        self.differing += 1
        if self._said:
            return
        self._said = True
        log.warning(
            "batch %d: %s (%s) gave another %s when it was computed again in the backward pass "
            "(activation checkpointing), out of the same inputs: largest %s then, %s now; it is "
            "not deterministic (is preserve_rng_state off?), or the hardware errs",
            first.batch,
            first.module or "the model",
            first.class_name,
            cell.name,
            _shown(cell.numbers),
            _shown(other.numbers),
        )


def _of(kind: CellKind, cells: Iterable[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.kind is kind]


def _ready(cell: Cell) -> bool:
    numbers: Any = cell.numbers
    return numbers is None or bool(numbers.ready)


def _same(one: Numbers | None, other: Numbers | None) -> bool:
    if one is None or other is None:
        return one is other
    return _facts(one) == _facts(other)


def _facts(numbers: Numbers) -> tuple[object, ...]:
    """Return what is compared; text, as a value that does not exist is not equal to itself."""
    extremes = (numbers.abs_min_nonzero, numbers.abs_max_finite)
    counts = (numbers.nan_count, numbers.inf_count, numbers.zero_count, numbers.numel)
    return (*map(repr, extremes), *counts, numbers.first_nonfinite)


def _shown(numbers: Numbers | None) -> str:
    if numbers is None:
        return "none"
    bad = numbers.nan_count + numbers.inf_count
    return f"{numbers.abs_max_finite:.9g} with {numbers.zero_count:,} zeros" + (
        f" and {bad:,} NaN or Inf" if bad else ""
    )
