"""Kernels, threads and places of GPUs in words."""

from postmortem.diagnose.names import short
from postmortem.facts.gpu_core import GpuCore, GpuFault, GpuFrame, GpuPlace, Three

_MOST_NAME = 60


def triple(value: Three) -> str:
    """Return ``(2,0,0)``."""
    return f"({value[0]},{value[1]},{value[2]})"


def short_kernel(name: str) -> str:
    """Return a kernel's name without its parameters, and without what makes templates long."""
    return short(name, _MOST_NAME)


def place_of(frame: GpuFrame) -> GpuPlace | None:
    """Return the innermost place of a frame that says where it is; None: none does."""
    return next((place for place in frame.places if place.file), None)


def line_of(frame: GpuFrame) -> str | None:
    """Return ``kernels.cu:31``; None where the code has no lines."""
    place = place_of(frame)
    if place is None or place.file is None:
        return None
    name = place.file.rpartition("/")[2]
    return f"{name}:{place.line}" if place.line else name


def kernel_of_fault(core: GpuCore, fault: GpuFault) -> str | None:
    """Return the short name of the kernel that failed, by its grid, or by the code at the place."""
    kernel = core.kernel_of(fault.first.device, fault.first.grid) if fault.has_thread else None
    if kernel is not None and kernel.name:
        return short_kernel(kernel.name)
    for frame in reversed(fault.frames):
        if frame.places and frame.places[-1].function:
            return short_kernel(frame.places[-1].function)
    return None
