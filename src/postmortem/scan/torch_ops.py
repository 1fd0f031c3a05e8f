"""A scan by operations of PyTorch, for tensors on devices that have no kernel of ours.

Nothing here waits for the device: the numbers are put in one small tensor there, and are fetched
when a field of the result is first read.
"""

from __future__ import annotations

import math

import torch

from postmortem._scan import ScanResult

_INTEGERS = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
)
_NARROW_BYTES = 2
"""Floats up to here are widened: fp8 has few operations, and their subnormals fit in float32."""


def scan_on_device(tensor: torch.Tensor) -> ScanResult:
    """Return a result whose numbers are fetched when they are first read."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.numel() == 0:
        nan = math.nan
        return ScanResult._later(dtype, lambda: (0, 0, 0, 0, 0, -1, nan, nan, nan, nan))
    with torch.no_grad():
        numbers = _numbers(tensor)
    count = tensor.numel()
    return ScanResult._later(dtype, lambda: _row(numbers, count))


def row_on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return the row of a result (see `postmortem.scan.ring`) as float64, without waiting."""
    count = float(tensor.numel())
    device = tensor.device
    if not tensor.numel():
        row = [0.0, 0.0, 0.0, 0.0, 0.0, -1.0, *[math.nan] * 4]
        return torch.tensor(row, dtype=torch.float64, device=device)
    with torch.no_grad():
        nans, infs, zeros, subnormals, first, least, largest = _numbers(tensor).unbind()
        bad = nans + infs > 0
        nan = torch.full_like(nans, math.nan)
        finite = torch.where(largest == -math.inf, nan, largest)
        nonzero = torch.where((least == math.inf) & (infs == 0), nan, least)
        return torch.stack(
            [
                torch.full_like(nans, count),
                nans,
                infs,
                zeros,
                subnormals,
                torch.where(bad, first, -torch.ones_like(first)),
                torch.where(zeros > 0, torch.zeros_like(nonzero), nonzero),
                torch.where(infs > 0, torch.full_like(nans, math.inf), finite),
                nonzero,
                finite,
            ]
        )


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


def _row(numbers: torch.Tensor, count: int) -> tuple[int | float, ...]:
    nans, infs, zeros, subnormals, first, least, largest = numbers.tolist()
    bad = bool(nans or infs)
    finite = largest if largest != -math.inf else math.nan
    nonzero = least if least != math.inf else (math.inf if infs else math.nan)
    return (
        count,
        int(nans),
        int(infs),
        int(zeros),
        int(subnormals),
        int(first) if bad else -1,
        0.0 if zeros else nonzero,
        math.inf if infs else finite,
        nonzero,
        finite,
    )
