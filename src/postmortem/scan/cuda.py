"""Scans on GPUs: our kernels where they can be used, operations of PyTorch where not.

The extension module `_cuda` is built where CMake finds nvcc. It is loaded when the first tensor on
a GPU comes; from then on the native scan hands such tensors to it without coming here.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from typing import Any

from postmortem import _scan
from postmortem._scan import ScanResult
from postmortem.facts.machine import CudaScan


@cache
def usable() -> CudaScan:
    """Return whether `_cuda` can be used in this process; asks the driver, once."""
    if importlib.util.find_spec("postmortem._cuda") is None:
        return CudaScan("not built")
    try:
        module: Any = importlib.import_module("postmortem._cuda")
    except ImportError as error:
        return CudaScan("cannot be loaded", str(error))
    found = module.probe()
    return CudaScan(architectures=module.architectures(), **found)


@cache
def _module() -> Any:
    """Return the module, known to the native scan from now on, or None."""
    if usable().state != "usable":
        return None
    module: Any = importlib.import_module("postmortem._cuda")
    _scan.on_cuda(module.scanner())
    return module


@cache
def why_not(device: int) -> str | None:
    """Return why our kernels cannot run on a device, None if they can."""
    module = _module()
    if module is None:
        state = usable()
        return f"{state.state}: {state.text}" if state.text else state.state
    reason: str | None = module.prepare(device)
    return reason


def scan_on_device(tensor: Any) -> ScanResult:
    """Return the scan of a plain torch tensor on a device, whose numbers come later."""
    if tensor.device.type == "cuda":
        pending = launch(tensor)
        if pending is not None:
            return ScanResult._later(_dtype(tensor), pending)
    from postmortem.scan.torch_ops import scan_on_device as by_torch

    return by_torch(tensor)


def launch(tensor: Any, row: int = 0) -> Any:
    """Launch our kernel on the current stream of a CUDA tensor's device.

    `row` is the address of 8 doubles there, which get what `torch_ops.FIELDS` says. Returns what
    gives the numbers when called, or None where the kernel cannot do it.
    """
    torch = sys.modules["torch"]
    device = tensor.device.index
    module = _module()
    # A child of a fork has the answer of its parent here, and is told by the scan itself.
    if module is None or why_not(device) is not None:
        return None
    try:
        return module.scan_pointer(
            tensor.data_ptr() if tensor.numel() else 0,
            device=device,
            stream=torch._C._cuda_getCurrentRawStream(device),
            dtype=_dtype(tensor),
            shape=tuple(tensor.shape),
            strides=None if tensor.is_contiguous() else tuple(tensor.stride()),
            row=row,
        )
    except ValueError:  # no format of ours
        return None


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
