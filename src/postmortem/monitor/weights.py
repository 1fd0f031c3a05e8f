"""The weights of a model, scanned once for each of their versions."""

import weakref
from typing import Any

import torch

from postmortem.facts.frames import Cell, CellKind
from postmortem.monitor.scans import Scans
from postmortem.scan import fastscan

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_MOST_GONE = 64
"""So many weights that nobody holds any more are forgotten together."""


class Weights:
    """What scans found of parameters, for as long as they are not written to.

    A version counts writes, but not those through ``.data``, by which some optimizers update. So
    what can be trained is read again after each step, or with each batch where no step is seen.
    """

    def __init__(self, scans: Scans) -> None:
        self._scans = scans
        self._known: dict[int, tuple[Any, ...]] = {}
        """By id. None is kept alive here: each `functional_call` may bring weights of its own."""
        self._tidy_at = _MOST_GONE
        self._refreshed = object()
        self._all_plain = False
        self._epochs = (0, 0)
        """Of the last two batches."""
        self._always_new = False
        """Whether weights are written to between batches: what was known is of no use."""
        self.epoch = 0
        """Changes when weights may have been written to."""

    def pairs(self, module: torch.nn.Module, own: dict[str, Any]) -> list[Any] | None:
        """Return names and numbers of a module's own parameters as of the last `refresh`.

        None where they have to be looked at one by one: parts of tensors, and what is not clean.
        """
        if own.get("of") is self._refreshed:
            known: list[Any] | None = own["pairs"]
            return known
        pairs: list[Any] | None = None
        if self._always_new:  # each now, while it is in the cache: the module has just used it
            pairs = self._scans.calls.weights(module._parameters)
        if pairs is None:
            pairs = self._by_version(module)
        if self._all_plain:
            own["of"], own["pairs"] = self._refreshed, pairs
        return pairs

    def _by_version(self, module: torch.nn.Module) -> list[Any] | None:
        pairs: list[Any] | None = []
        for name, weight in module._parameters.items():
            if weight is None or pairs is None:
                continue
            cells = self._current(weight)
            if cells is None:
                cells = []
                self._scans.cells(CellKind.WEIGHT, [(name, weight)], cells)
                self._remember(weight, cells)
            if len(cells) != 1 or not _is_simple(cells[0]):
                pairs = None
                continue
            pairs += (name, cells[0].numbers)
        return pairs

    def cells(self, module: torch.nn.Module, own: dict[str, Any], into: list[Cell]) -> None:
        """Add the cells of a module's own parameters; `own` remembers them for its next call."""
        for name, weight in module._parameters.items():
            if weight is None:
                continue
            seen = self._current(weight)
            if seen is None:
                cells: list[Cell] = []
                self._scans.cells(CellKind.WEIGHT, [(name, weight)], cells)
                self._remember(weight, cells)
                own.pop(name, None)
                seen = cells
            mine = own.get(name)
            if mine is None or mine[0] is not seen:
                named = [_renamed(cell, name) for cell in seen]
                own[name] = mine = (seen, named)
            into.extend(mine[1])

    def refresh(self, modules: list[torch.nn.Module]) -> None:
        """Begin a batch; on a device scan all parameters that were written to in one call.

        Those in memory are read when their module runs, which has them in the cache then.
        """
        found_stale: dict[int, torch.Tensor] = {}
        self._refreshed = object()
        self._all_plain = True
        last, before = self._epochs
        one_kind = (self.epoch < 0) == (before < 0)  # not from batches before the first step
        self._always_new = one_kind and self.epoch != last != before
        self._epochs = (self.epoch, last)
        for module in modules:
            for weight in module._parameters.values():
                if weight is None:
                    continue
                if type(weight) not in _PLAIN:
                    self._all_plain = False
                elif not weight.is_cpu and self._current(weight) is None:
                    found_stale[id(weight)] = weight
        if not found_stale:
            return
        stale = list(found_stale.values())
        try:
            found = fastscan(stale)
        except (TypeError, RuntimeError):  # one of them has no values: each by itself then
            return
        self._scans.count(len(stale))
        for weight, numbers in zip(stale, found, strict=True):
            if weight.dtype.itemsize > 1:
                self._remember(weight, [Cell(CellKind.WEIGHT, "", numbers)])

    def _current(self, weight: Any) -> list[Cell] | None:
        known = self._known.get(id(weight))
        if known is None or known[0]() is not weight:
            return None
        if known[2] != self.epoch and weight.requires_grad:
            return None
        try:
            fresh = known[1] == weight._version and known[4] == weight.data_ptr()
        except RuntimeError:
            return None
        cells: list[Cell] | None = known[3] if fresh else None
        return cells

    def _remember(self, weight: Any, cells: list[Cell]) -> None:
        try:
            version, address = weight._version, weight.data_ptr()
        except RuntimeError:  # made in inference mode, or without storage: read each time
            return
        if len(self._known) >= self._tidy_at:
            self._known = {key: one for key, one in self._known.items() if one[0]() is not None}
            self._tidy_at = 2 * len(self._known) + _MOST_GONE
        self._known[id(weight)] = (weakref.ref(weight), version, self.epoch, cells, address)


def _is_simple(cell: Cell) -> bool:
    """Whether a cell is nothing but numbers that are here and finite."""
    numbers = cell.numbers
    return (
        numbers is not None
        and not cell.note
        and cell.saturated is None
        and bool(numbers.ready)  # type: ignore[union-attr]
        and numbers.is_finite
    )


def _renamed(cell: Cell, name: str) -> Cell:
    if cell.name.startswith(name) and cell.name:
        return cell
    return Cell(cell.kind, name, cell.numbers, cell.note, cell.detail, cell.masked, cell.saturated)
