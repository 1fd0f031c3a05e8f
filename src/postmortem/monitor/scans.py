"""Scans of tensors, each once for as long as its memory does not change.

The output of one module is the input of the next, and often of the one around it. What was scanned
is known by address, layout and version, for as long as the tensor that was scanned is alive: a weak
reference tells, so that nothing is kept in memory and no reused address is taken for the old one.
"""

import weakref
from typing import Any

import torch

from postmortem.diagnose.numerics.first_bad import looks_like_mask
from postmortem.facts.dtypes import RANGES
from postmortem.facts.frames import Cell, CellKind, Note
from postmortem.monitor.walk import Leaf
from postmortem.scan import CallScans, ScanResult, fastscan
from postmortem.scan.tensor_adapters import Unreadable

_MOST_KNOWN = 4096
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_BYTES = {  # fp8: bits of the largest magnitude (OCP 8-bit Floating Point Specification, table 2)
    "float8_e4m3fn": 0x7E,
    "float8_e4m3fnuz": 0x7F,
    "float8_e5m2": 0x7B,
    "float8_e5m2fnuz": 0x7F,
}


class Scans:
    """Scans tensors and remembers what it has seen of this batch."""

    def __init__(self) -> None:
        self.calls = CallScans()
        self._known: dict[int, tuple[Any, ...]] = {}
        self._scanned = self._spared = 0
        scan_any(torch.empty(0))  # has the native side trust the types of PyTorch
        scan_any(torch.nn.Parameter(torch.empty(0)))

    @property
    def scanned(self) -> int:
        """How many tensors were read."""
        return self._scanned + self.calls.scanned

    @property
    def spared(self) -> int:
        """How many were not, because nothing had changed since they were."""
        return self._spared + self.calls.spared

    def count(self, tensors: int) -> None:
        """Count tensors that somebody else has scanned."""
        self._scanned += tensors

    def forget(self) -> None:
        """Forget what was scanned: a new batch begins."""
        self._known.clear()
        self.calls.forget()

    def cells(self, kind: CellKind, leaves: list[Leaf], into: list[Cell]) -> None:
        """Add the cells of tensors, or of what stood in their places."""
        for name, leaf in leaves:
            if isinstance(leaf, str):
                into.append(Cell(kind, name, None, detail=leaf))
                continue
            numbers = self.numbers(leaf)
            if isinstance(numbers, str):
                into.extend(self._parts(kind, name, leaf, numbers))
                continue
            cell = Cell(kind, name, numbers)
            if type(leaf) not in _PLAIN:
                cell.detail = _shard(leaf)
                cell.note = Note.SHARD if cell.detail else None
            if leaf.dtype.itemsize == 1:
                cell.saturated = saturated(leaf, numbers)
            into.append(cell)

    def numbers(self, tensor: torch.Tensor) -> ScanResult | str:
        """Return what a scan finds, or why there are no values."""
        kind = type(tensor)
        if kind is not _PLAIN[0] and kind is not _PLAIN[1]:
            self._scanned += 1
            return scan_any(tensor)
        found: ScanResult | None = self.calls.numbers(tensor)
        if found is not None:
            return found
        return self._elsewhere(tensor)

    def _elsewhere(self, tensor: torch.Tensor) -> ScanResult | str:
        """Return the numbers of a plain tensor on a device: scanned once, like those in memory."""
        try:
            address, version = tensor.data_ptr(), tensor._version
        except RuntimeError:  # no storage, inference mode, inside of torch.func
            return scan_any(tensor)
        if not address or tensor.device.type == "cpu":
            return scan_any(tensor)
        entry = self._known.get(address)
        if entry is not None and _same(entry, tensor, version, address):
            self._spared += 1
            known: ScanResult = entry[2]
            return known
        self._scanned += 1
        result = scan_any(tensor)
        if isinstance(result, str):
            return result
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[address] = (weakref.ref(tensor), version, result)
        return result

    def _parts(self, kind: CellKind, name: str, leaf: torch.Tensor, why: str) -> list[Cell]:
        """Return the cells of the tensors that a tensor is made of, else one that says why not."""
        inner = _inner(leaf)
        if not inner:
            return [Cell(kind, name, None, Note.UNREAD, why)]
        cells: list[Cell] = []
        for part, tensor in inner:
            numbers = self.numbers(tensor)
            place = f"{name}.{part}" if part else name
            if isinstance(numbers, str):
                cells.append(Cell(kind, place, None, Note.UNREAD, numbers))
            else:
                cells.append(Cell(kind, place, numbers, None if part else Note.INNER))
        return cells


def _same(entry: tuple[Any, ...], tensor: torch.Tensor, version: int, address: int) -> bool:
    """Whether a tensor is what was scanned: a version is shared by all views of one storage."""
    seen = entry[0]()
    if seen is None or entry[1] != version:
        return False
    if seen is tensor:
        return True
    return bool(
        seen.data_ptr() == address
        and seen._version == version
        and seen.dtype == tensor.dtype
        and seen.numel() == tensor.numel()
        and (
            (seen.is_contiguous() and tensor.is_contiguous())
            or (seen.shape == tensor.shape and seen.stride() == tensor.stride())
        )
        and seen.is_neg() == tensor.is_neg()
    )


def scan_any(tensor: torch.Tensor) -> ScanResult | str:
    """Return the scan of a tensor of any kind, or why it has no values; never raises."""
    try:
        result: ScanResult = fastscan(tensor)
        return result
    except Unreadable as error:
        return error.what
    except (TypeError, RuntimeError, NotImplementedError) as error:
        return str(error).split(":")[0]


def _inner(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors that hold the values of a sparse, nested or wrapping tensor."""
    try:
        if tensor.layout is torch.sparse_coo:
            return [("", tensor._values())]
        if tensor.layout in (
            torch.sparse_csr,
            torch.sparse_csc,
            torch.sparse_bsr,
            torch.sparse_bsc,
        ):
            return [("", tensor.values())]
        if tensor.is_nested:
            return [("", tensor.values())] if tensor.layout is torch.jagged else []
        if tensor.device.type == "meta" or not hasattr(type(tensor), "__tensor_flatten__"):
            return []
        names, _ = tensor.__tensor_flatten__()
        parts = [(str(name), getattr(tensor, name)) for name in names]
    except (RuntimeError, AttributeError, NotImplementedError, ValueError):
        return []
    return [(name, part) for name, part in parts if isinstance(part, torch.Tensor)]


def _shard(tensor: torch.Tensor) -> str:
    """Return which part of a distributed tensor it is: ``1/4``."""
    mesh = getattr(tensor, "device_mesh", None)
    placements = getattr(tensor, "placements", ())
    if mesh is None or not any(p.is_shard() for p in placements):
        return ""
    return f"{mesh.get_rank()}/{mesh.size()}"


def saturated(tensor: torch.Tensor, numbers: ScanResult) -> int | None:
    """Return how many values of an fp8 tensor are the largest there is; None for other types.

    Only in memory of this machine: on a device one would have to wait for the number.
    """
    if not tensor.dtype.is_floating_point or tensor.device.type != "cpu":
        return None
    limit = RANGES.get(numbers.dtype)
    if limit is None or numbers.abs_max_finite != limit.largest or type(tensor) not in _PLAIN:
        return 0 if limit is not None else None
    bits = tensor.detach().view(torch.uint8) & 0x7F
    return int((bits == _BYTES[numbers.dtype]).sum())


def is_mask_kept(name: str, tensor: torch.Tensor, numbers: ScanResult) -> bool:
    """Return whether infinities are meant: causal masks are kept in buffers and attributes."""
    if numbers.nan_count or bool(torch.isposinf(tensor.detach().float()).any()):
        return False
    return looks_like_mask(name, numbers) or not isinstance(tensor, torch.nn.Parameter)
