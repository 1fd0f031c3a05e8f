"""Infinities that are meant: attention masks, and the scores that they were added to.

Such a mask holds -inf (or finfo.min, which is finite and needs no rule), never +inf or NaN. It is
told by its name, by its values (nothing but 0 and -inf), or by what becomes of it: a module that
gives clean numbers for it was made for it. Nothing but -inf that is passed on is no mask: nothing
would be left of it.
"""

import torch

from postmortem.diagnose.numerics.first_bad import looks_like_mask
from postmortem.facts.frames import Cell, CellKind, Note, Numbers
from postmortem.monitor.walk import Leaf


class Masks:
    """Marks the cells of a frame whose infinities are a mask's."""

    def __init__(self) -> None:
        self._signs: dict[int, tuple[Numbers, bool | None]] = {}
        self._masks: dict[int, Numbers] = {}

    def forget(self) -> None:
        """Forget the signs that were looked up: a new batch begins."""
        self._signs.clear()
        self._masks.clear()

    def mark(self, cells: list[Cell], leaves: list[Leaf]) -> None:
        """Mark masks among the cells of one call, given its inputs and outputs."""
        tensors = {name: leaf for name, leaf in leaves if isinstance(leaf, torch.Tensor)}
        inputs = [cell for cell in cells if cell.kind is CellKind.INPUT]
        outputs = [cell for cell in cells if cell.kind is CellKind.OUTPUT]
        clean = all(c.numbers is None or c.numbers.is_finite for c in outputs)
        passed = all(
            c.numbers is None or c.numbers.is_finite or self._negative(c, tensors) for c in outputs
        )
        for cell in inputs:
            negative = self._negative(cell, tensors)
            if cell.numbers is None or negative is False or cell.numbers.is_finite:
                continue
            told = looks_like_mask(cell.name, cell.numbers) or id(cell.numbers) in self._masks
            if told or (negative and (clean or (passed and not _all_infinite(cell.numbers)))):
                self._mark(cell)
        expected = any(c.masked or "mask" in c.name.lower() or _is_bool(c) for c in inputs)
        for cell in outputs:
            if cell.numbers is None or not self._negative(cell, tensors):
                continue
            if expected or looks_like_mask("", cell.numbers):
                self._mark(cell)
            else:
                cell.note = cell.note or Note.ONLY_NEGATIVE

    def _mark(self, cell: Cell) -> None:
        assert cell.numbers is not None
        cell.masked = True
        cell.note = Note.MASK
        self._masks[id(cell.numbers)] = cell.numbers  # kept, so that the id stays its own

    def _negative(self, cell: Cell, tensors: dict[str, torch.Tensor]) -> bool | None:
        """Whether all that is bad of a cell is -inf; None if nobody could look without waiting."""
        numbers = cell.numbers
        if numbers is None or numbers.nan_count or not numbers.inf_count:
            return False
        known = self._signs.get(id(numbers))
        if known is not None and known[0] is numbers:
            return known[1]
        tensor = tensors.get(cell.name)
        negative: bool | None = None
        if tensor is not None and tensor.device.type == "cpu" and tensor.is_floating_point():
            wide = tensor.detach()
            if wide.dtype.itemsize == 1:
                wide = wide.float()
            negative = not bool(torch.isposinf(wide).any())
        self._signs[id(numbers)] = (numbers, negative)
        return negative


def _all_infinite(numbers: Numbers) -> bool:
    return numbers.inf_count == numbers.numel


def _is_bool(cell: Cell) -> bool:
    return cell.numbers is not None and cell.numbers.dtype == "bool"
