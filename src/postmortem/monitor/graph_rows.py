"""Modules under `torch.compile`: their outputs are scanned inside of the graph.

Hooks that Dynamo traces may touch nothing of Python's but one operator, which writes into a row of
a tensor; a row also holds the order in which it was written, since slots go by the modules' names.
The rows are read between steps.

Dynamo does not guard on hooks: what is registered after the first call of a compiled model, or on
another model of the same class, is left out and nobody is told. Gradients come all the same, and so
a module that has gradients but gave no record is one whose hook was left out.
"""

import itertools
import math
import sys
from typing import Any

import torch

from postmortem.facts.frames import Cell, CellKind
from postmortem.monitor.walk import outputs_of
from postmortem.scan import ScanResult, fastscan
from postmortem.scan.torch_ops import FIELDS, row_on_device, values_of

_OUTPUTS = 4
"""So many tensors of each module's output are recorded in compiled code."""
_UNWRITTEN = -1.0

_operators: Any = torch.library
_library = _operators.Library("postmortem", "FRAGMENT")
_library.define("watch_slot(Tensor x, Tensor(a!) rows, int slot) -> ()")
_order = itertools.count(1)


# What accumulated batches and modules that are called several times leave in a row is the worst of
# them: NaN before infinities, infinities before finite numbers, else the last.


def _on_cpu(x: torch.Tensor, rows: torch.Tensor, slot: int) -> None:
    r = fastscan(x)
    nans, infinities = rows[slot, 1:3].tolist()
    if nans > 0 or (infinities > 0 and r.nan_count == 0):
        return
    least = math.inf if math.isnan(r.abs_min_nonzero) else r.abs_min_nonzero
    largest = -math.inf if math.isnan(r.abs_max_finite) else r.abs_max_finite
    counts = (r.numel, r.nan_count, r.inf_count, r.zero_count, r.subnormal_count)
    row = (*counts, r.first_nonfinite or 0, least, largest, next(_order))
    rows[slot] = torch.tensor(row, dtype=torch.float64)


def _on_device(x: torch.Tensor, rows: torch.Tensor, slot: int) -> None:
    rows[-1] += 1.0  # counts what was written, on the device
    new, old = torch.cat([row_on_device(x), rows[-1, -1:]]), rows[slot]
    worse = (old[1] > 0) | ((old[2] > 0) & (new[1] == 0))
    rows[slot] = torch.where(worse, old, new)


def _nothing(x: torch.Tensor, rows: torch.Tensor, slot: int) -> None:
    """What tracing needs to know: nothing is returned."""


_library.impl("watch_slot", _on_cpu, "CPU")
_library.impl("watch_slot", _on_device, "CUDA")
_library.impl("watch_slot", _nothing, "Meta")


def record_output(output: Any, rows: torch.Tensor, slot: int) -> None:
    """Scan what a module gave into its rows; runs inside of compiled code."""
    at = slot
    for _, leaf in outputs_of(output):
        if isinstance(leaf, torch.Tensor) and at < slot + _OUTPUTS and leaf.device == rows.device:
            torch.ops.postmortem.watch_slot(leaf, rows, at)
            at += 1


class CompiledRows:
    """The rows of all modules of a model, for what compiled code records."""

    def __init__(self, named: list[tuple[str, torch.nn.Module]]) -> None:
        self.slots = {name: at * _OUTPUTS for at, (name, _) in enumerate(named)}
        self.ran: set[str] = set()
        """Names of modules that gave records."""
        self._modules = [(name, type(module).__name__) for name, module in named]
        parameters = (p for _, module in named for p in module._parameters.values())
        first = next((p for p in parameters if p is not None), None)
        device = first.device if first is not None and first.device.type == "cuda" else "cpu"
        size = (len(named) * _OUTPUTS + 1, FIELDS + 1)
        self.rows = torch.full(size, _UNWRITTEN, dtype=torch.float64, device=device)
        self._on_their_way: tuple[torch.Tensor, Any] | None = None

    def collect(self) -> list[tuple[str, str, list[Cell]]]:
        """Return name, class and cells of what was recorded since, in the order of recording.

        Rows on a device are copied without waiting for it, and are returned when they have come.
        """
        rows = self._fetched()
        if rows is None:
            return []
        written = (rows[:-1, 0] != _UNWRITTEN).nonzero().flatten().tolist()
        if not written:
            return []
        found: dict[int, list[tuple[float, Cell]]] = {}
        for slot in written:
            row: list[float] = rows[slot].tolist()
            module, at = divmod(slot, _OUTPUTS)
            name = "output" if not at else f"output[{at}]"
            numbers = _numbers(tuple(values_of(row[:FIELDS])))
            cell = Cell(CellKind.OUTPUT, name, numbers)
            found.setdefault(module, []).append((row[FIELDS], cell))
        modules = sorted(found.items(), key=lambda item: item[1][0][0])
        named = [(self._modules[at], [cell for _, cell in cells]) for at, cells in modules]
        self.ran.update(name for (name, _), _ in named)
        return [(name, class_name, cells) for (name, class_name), cells in named]

    def _fetched(self) -> torch.Tensor | None:
        if type(self.rows) is not torch.Tensor:  # made where all tensors are fake
            return None
        if self.rows.device.type == "cpu":
            if bool((self.rows[:-1, 0] == _UNWRITTEN).all()):
                return None
            rows = self.rows.clone()
            self.rows.fill_(_UNWRITTEN)
            return rows
        come = None
        if self._on_their_way is not None and self._on_their_way[1].query():
            come, self._on_their_way = self._on_their_way[0], None
        if self._on_their_way is None:
            here = torch.empty(self.rows.shape, dtype=torch.float64, pin_memory=True)
            here.copy_(self.rows, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            self.rows[:-1].fill_(_UNWRITTEN)
            self._on_their_way = (here, event)
        return come

    def unheard(self, model: torch.nn.Module, heard: set[int], *, called: bool) -> str | None:
        """Say which modules were trained without giving a record, where compiled code ran.

        heard: parameters (by id) whose gradients came; they may be gone from the parameters by now.
        called: whether there was any record of a forward pass.
        """
        if not _dynamo_ran():
            return None
        silent = [
            name
            for name, module in model.named_modules()
            if name not in self.ran
            and not isinstance(module, torch.nn.MultiheadAttention)
            and any(_is_trained(p, heard) for p in module._parameters.values())
            and not _inside_attention(model, name)
        ]
        if not silent and called:
            return None
        what = f"{len(silent)} modules were trained" if silent else "nothing was recorded"
        which = f" (first: {silent[0]})" if silent else ""
        return (
            f"{what} without the monitor's hooks{which}: torch.compile leaves out hooks that are "
            "registered after the first compiled call, or on another model of a compiled class; "
            "attach the monitor before that call, or call torch._dynamo.reset() after attaching"
        )


def _is_trained(weight: torch.Tensor | None, heard: set[int]) -> bool:
    return weight is not None and (id(weight) in heard or weight.grad is not None)


def _inside_attention(model: torch.nn.Module, name: str) -> bool:
    """Whether a module's weights are used by its parent, which does not call it."""
    parent = model.get_submodule(name.rpartition(".")[0])
    return isinstance(parent, torch.nn.MultiheadAttention)


def _dynamo_ran() -> bool:
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["stats"])


def _numbers(values: tuple[int | float, ...]) -> ScanResult:
    result = ScanResult._later("float", lambda: values)
    assert result.numel >= 0  # takes the values now
    return result
