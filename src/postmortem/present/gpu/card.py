"""What a core dump of GPUs puts on its card: the line of the kernel, and who failed there."""

from collections.abc import Iterator

from postmortem.diagnose.gpu.words import triple
from postmortem.diagnose.stacks.names import shorten
from postmortem.facts.gpu_core import GpuCore, GpuFault
from postmortem.report.card import Highlights, Place
from postmortem.text import counted


def gpu_highlights(core: GpuCore) -> Highlights | None:
    """Return the place of the most exact fault; None where no thread is known to have failed."""
    fault = core.faults[0] if core.faults else None
    if fault is None or not fault.has_thread:
        return None
    return Highlights(places=tuple(_places(fault)), rows=tuple(_rows(core, fault)))


def _places(fault: GpuFault) -> Iterator[Place]:
    """Yield the innermost line that is known; without -lineinfo, none is."""
    for place in (place for frame in fault.frames for place in frame.places):
        if place.function and place.file and place.line:
            yield Place(shorten(place.function), place.file, place.line)
            return


def _rows(core: GpuCore, fault: GpuFault) -> Iterator[tuple[str, str]]:
    first = fault.first
    kernel = core.kernel_of(first.device, first.grid)
    if kernel is not None:
        shape = f"grid {triple(kernel.grid_size)} of blocks {triple(kernel.block_size)}"
        by = f", launched by thread {kernel.host_tid}" if kernel.host_tid is not None else ""
        yield "kernel", f"{shape}{by}"
    count = f"{counted(fault.threads, 'thread')} in {counted(fault.blocks, 'block')}"
    device = core.devices[first.device].name if first.device < len(core.devices) else "?"
    yield "failed", f"{count}, on GPU {first.device} ({device})"
