"""Gradients of what the model gave: what the loss of this rank sent into its backward pass.

Where weights are sharded, ranks sum their gradients before anybody sees them, so a bad one is no
single rank's. The gradient of the model's output comes before that sum, and is the rank's own.
"""

from functools import partial
from typing import Any

import torch

from postmortem.facts.frames import Cell, CellKind, Note
from postmortem.monitor.scans import Scans
from postmortem.monitor.walk import tensors_in

_MOST_BATCHES = 8
_MOST_UNSUMMED = 64
_is_compiling = torch.compiler.is_compiling


class Entering:
    """Looks at the gradients of the model's outputs, and keeps those that may be bad."""

    def __init__(self, scans: Scans) -> None:
        self.batch = 0
        """The batch whose backward pass runs, as far as forward passes tell."""
        self._scans = scans
        self._bad: dict[int, list[Cell]] = {}
        """By the batch in which the sum came; of a device they may turn out to be clean."""
        self._unsummed: list[Cell] = []
        """Those that accumulate on this rank until a later batch is summed."""

    def listen(self, output: Any) -> None:
        """Wait for the gradients of what the model gave."""
        for name, tensor in tensors_in(output, "output"):
            if tensor.grad_fn is not None:
                tensor.register_hook(partial(self._came, name))

    def _came(self, name: str, gradient: torch.Tensor | None) -> None:
        if gradient is None or _is_compiling():
            return
        cells: list[Cell] = []
        self._scans.cells(CellKind.GRADIENT, [(name, gradient)], cells)
        for cell in cells:
            numbers: Any = cell.numbers
            if numbers is None or cell.note or (numbers.ready and numbers.is_finite):
                continue
            if len(self._unsummed) < _MOST_UNSUMMED:
                self._unsummed.append(Cell(cell.kind, name, numbers, Note.BEFORE_SUM))

    def summed(self) -> None:
        """Take it that what came so far is in the sum that a weight got now."""
        if not self._unsummed:
            return
        self._bad.setdefault(self.batch, []).extend(self._unsummed)
        self._unsummed.clear()
        while len(self._bad) > _MOST_BATCHES:
            del self._bad[min(self._bad)]

    def first_bad(self, batch: int) -> Cell | None:
        """Return the first bad gradient in what was summed in a batch; waits for a device."""
        cells = self._bad.get(batch, ())
        return next((c for c in cells if c.numbers and not c.numbers.is_finite), None)
