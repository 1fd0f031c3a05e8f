"""A scan by operations of PyTorch, for tensors on devices that have no kernel of ours.

Nothing here waits for the device: the numbers are put in one small tensor there, and are fetched
when a field of the result is first read.
"""

import math

import torch

from postmortem._scan import ScanResult

FIELDS = 8
"""Of a row: numel, NaN, Inf, zeros, subnormals, first bad index, least not zero, largest finite.

The least is inf and the largest -inf where there is none.
"""
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
_NARROW_BYTES = 2
"""Floats up to here are widened: fp8 has few operations, and their subnormals fit in float32."""


def scan_on_device(tensor: torch.Tensor) -> ScanResult:
    """Return a result whose numbers are fetched when they are first read."""
    row = row_on_device(tensor)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return ScanResult._later(dtype, lambda: values_of(row.tolist()))


def row_on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return what was counted as `FIELDS` numbers of float64 on the device, without waiting."""

    def filled(size: int, value: float) -> torch.Tensor:  # on the device: a copy would wait for it
        return torch.full((size,), value, dtype=torch.float64, device=tensor.device)

    count = filled(1, float(tensor.numel()))
    if not tensor.numel():
        return torch.cat([count, filled(5, 0.0), filled(1, math.inf), filled(1, -math.inf)])
    with torch.no_grad():
        return torch.cat([count, _numbers(tensor)])


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Return counts and extremes as float64 on the tensor's device, without waiting for it.

    NaN, Inf, zero and subnormal counts, first bad index, least not zero, largest finite.
    """
    values = tensor.detach()
    per_element = 1
    if values.is_complex():
        values, per_element = torch.view_as_real(values.resolve_conj()), 2
    smallest_normal = 0.0
    if values.dtype not in _INTEGERS:
        smallest_normal = torch.finfo(values.dtype).smallest_normal
        if values.dtype.itemsize <= _NARROW_BYTES:
            values = values.to(torch.float32)
    else:
        values = values.to(torch.float64)
    size = values.abs()
    nan, inf = size.isnan(), size.isinf()
    bad = nan | inf
    zero = size == 0
    subnormal = (size < smallest_normal) & ~zero
    first = bad.flatten().to(torch.uint8).argmax() // per_element
    least = size.masked_fill(bad | zero, math.inf).amin()
    largest = size.masked_fill(bad, -math.inf).amax()
    rows = (nan.sum(), inf.sum(), zero.sum(), subnormal.sum(), first, least, largest)
    return torch.stack([row.to(torch.float64) for row in rows])


def values_of(row: list[float]) -> tuple[int | float, ...]:
    """Return the fields of a `ScanResult` behind a row that has come from the device."""
    count, nans, infs, zeros, subnormals, first, least, largest = row
    finite = largest if largest != -math.inf else math.nan
    nonzero = least if least != math.inf else (math.inf if infs else math.nan)
    return (
        int(count),
        int(nans),
        int(infs),
        int(zeros),
        int(subnormals),
        int(first) if nans or infs else -1,
        0.0 if zeros else nonzero,
        math.inf if infs else finite,
        nonzero,
        finite,
    )
