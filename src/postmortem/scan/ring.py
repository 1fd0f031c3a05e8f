"""Scans inside of compiled functions: an operator that writes into a slot of a tensor.

``fastscan`` gives a Python object, which a graph of ``torch.compile`` cannot hold. The operator
``postmortem::scan_slot(Tensor x, Tensor(a!) ring, int slot) -> ()`` writes the numbers into a row
of a tensor of float64 on the same device instead; since it changes its argument it is not dead
code, and the graph does not break. (PyTorch drops operators that return what nobody reads:
pytorch/pytorch#187319.)
"""

import math
from typing import Any

import torch

from postmortem._scan import ScanResult, fastscan
from postmortem.scan.cuda import launch
from postmortem.scan.torch_ops import FIELDS, row_on_device, values_of

_UNWRITTEN = -1.0

_operators: Any = torch.library  # its functions have no types
_library = _operators.Library("postmortem", "DEF")  # lives as long as this module
_library.define("scan_slot(Tensor x, Tensor(a!) ring, int slot) -> ()")


def _on_cpu(x: torch.Tensor, ring: torch.Tensor, slot: int) -> None:
    r = fastscan(x)
    least = math.inf if math.isnan(r.abs_min_nonzero) else r.abs_min_nonzero
    largest = -math.inf if math.isnan(r.abs_max_finite) else r.abs_max_finite
    counts = (r.numel, r.nan_count, r.inf_count, r.zero_count, r.subnormal_count)
    row = (*counts, r.first_nonfinite or 0, least, largest)
    ring[slot] = torch.tensor(row, dtype=torch.float64)


def _on_device(x: torch.Tensor, ring: torch.Tensor, slot: int) -> None:
    ring[slot] = row_on_device(x)


def _on_cuda(x: torch.Tensor, ring: torch.Tensor, slot: int) -> None:
    """One kernel of ours that writes the row itself, where it can."""
    row = ring[slot]
    plain = row.dtype is torch.float64 and row.is_contiguous() and ring.device == x.device
    if not (plain and x.numel() and launch(x.detach(), row.data_ptr()) is not None):
        _on_device(x, ring, slot)


def _nothing(x: torch.Tensor, ring: torch.Tensor, slot: int) -> None:
    """What tracing needs to know: nothing is returned."""


_library.impl("scan_slot", _on_cpu, "CPU")
_library.impl("scan_slot", _on_cuda, "CUDA")
_library.impl("scan_slot", _nothing, "Meta")


class ScanRing:
    """Slots for scans, which functions under ``torch.compile`` may fill.

    ``ring.record(x, slot)`` anywhere in the function, ``ring[slot]`` outside of it.
    """

    def __init__(self, slots: int, device: str | torch.device = "cpu") -> None:
        self._rows = torch.full((slots, FIELDS), _UNWRITTEN, dtype=torch.float64, device=device)

    def __len__(self) -> int:
        return int(self._rows.shape[0])

    def record(self, x: torch.Tensor, slot: int) -> None:
        """Scan a tensor into a slot; it must be on the ring's device."""
        torch.ops.postmortem.scan_slot(x, self._rows, slot)

    def clear(self) -> None:
        """Forget what was recorded."""
        self._rows.fill_(_UNWRITTEN)

    def __getitem__(self, slot: int) -> ScanResult | None:
        """Return what was recorded last, or None; waits for the device.

        A row does not say of which data type the tensor was: `dtype` is "unknown".
        """
        row: list[float] = self._rows[slot].tolist()
        if row[0] == _UNWRITTEN:
            return None
        result = ScanResult._later("unknown", lambda: values_of(row))
        assert math.isnan(result.abs_max) or result.abs_max >= 0  # the row is taken here
        return result
