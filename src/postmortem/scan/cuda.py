"""Scans on GPUs: our kernels where they can be used, operations of PyTorch where not.

The extension module `_cuda` is built where CMake finds nvcc, and loaded when the first tensor on
a GPU comes. If it agrees with the processor on that device, the native scan hands it such tensors
from then on, without coming here; if not, PyTorch's operations are used, and `why_not` says why.
"""

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
    """Return the module, or None where nothing here can be used."""
    if usable().state != "usable":
        return None
    return importlib.import_module("postmortem._cuda")


_reasons: dict[int, str | None] = {}


def why_not(device: int) -> str | None:
    """Return why our kernels are not used on a device, None if they are.

    The first call for a device compares what they say of a few thousand numbers with what the
    processor says of the same; it waits for that, and for nothing of the caller's.
    """
    if device not in _reasons:
        module = _module()
        if module is None:
            state = usable()
            return f"{state.state}: {state.text}" if state.text else state.state
        torch = sys.modules["torch"]
        if torch.cuda.is_current_stream_capturing():
            return "not checked yet: its first scan came while a CUDA graph was captured"
        _reasons[device] = module.prepare(device) or _differs(torch, module, device)
        if _reasons[device] is None:  # from now on such tensors do not come here any more
            _scan.on_cuda(module.scanner())
    return _reasons[device]


def _differs(torch: Any, module: Any, device: int) -> str | None:
    """Return in what the kernels differ from the processor's scan of the same bits, if in anything.

    Bits of all kinds: NaNs, infinities, zeros and subnormals are among them.
    """
    count = 100_003
    bits = (torch.arange(count, dtype=torch.int64) * 2_654_435_761 >> 7).to(torch.int32)
    bits[::3] = 0
    for name in ("float32", "bfloat16", "float16", "float8_e4m3fn"):
        dtype = getattr(torch, name, None)
        if dtype is None:
            continue
        here = bits.view(dtype)
        try:
            with torch.cuda.device(device):
                there = here.to(torch.device("cuda", device))
                pending = module.scan_pointer(
                    there.data_ptr(),
                    device=device,
                    stream=torch._C._cuda_getCurrentRawStream(device),
                    dtype=name,
                    shape=tuple(there.shape),
                )
                torch.cuda.current_stream(device).synchronize()
                if pending is None or not pending.ready():
                    return f"the self-check on {name} gave no numbers"
                found, expected = ScanResult._later(name, pending), _scan.fastscan(here)
        except RuntimeError as error:
            return f"the self-check on {name} failed: {error}"
        for field in _CHECKED:
            if getattr(found, field) != getattr(expected, field):
                return f"the self-check on {name} gave another {field} than the processor"
    return None


_CHECKED = (
    "numel nan_count inf_count zero_count subnormal_count first_nonfinite abs_min abs_max"
    " abs_min_nonzero abs_max_finite"
).split()


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
