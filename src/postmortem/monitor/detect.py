"""`detect_overflow`: whether one tensor holds NaN or Inf, said as transformers says it."""

import sys

import torch

from postmortem.monitor.scans import scan_any


def detect_overflow(var: torch.Tensor, ctx: str) -> bool:
    """Return whether a tensor holds NaN or Inf, and print which, with `ctx` before it.

    Waits for the device. What has no values (meta tensors and the like) holds neither.
    """
    numbers = scan_any(var)
    if isinstance(numbers, str):
        return False
    if numbers.nan_count:
        sys.stdout.write(f"{ctx} has nans\n")
    if numbers.inf_count:
        sys.stdout.write(f"{ctx} has infs\n")
    return not numbers.is_finite
