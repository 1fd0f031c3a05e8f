"""Kernels, threads and places of GPUs in words."""

from collections.abc import Iterator

from postmortem.diagnose.names import short
from postmortem.facts.gpu_core import GpuCore, GpuFault, GpuFrame, GpuPlace, Three
from postmortem.report.model import Evidence
from postmortem.text import address, counted

_MOST_NAME = 60
_MOST_FRAMES = 4


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


def how_to_know_more(core: GpuCore, fault: GpuFault, line: str | None) -> Iterator[str]:
    """Yield what would make the next dump say more."""
    if line is None:
        if any(frame.places for frame in fault.frames):
            yield "build the kernel with -lineinfo (nvcc) for its source line in the next dump"
        else:
            yield "the dump lacks the kernel's code: if it was cut, copy it again"
    kernel = core.kernel_of(fault.first.device, fault.first.grid)
    if kernel is None or not kernel.blocking:
        yield (
            "for the line of Python that launched it: postmortem run --sync -- CMD (launches "
            "wait); without it Python's line is that of the next synchronisation"
        )


def cite_fault(core: GpuCore, fault: GpuFault, what: str) -> tuple[Evidence, ...]:
    """Return who says that threads failed, which, and where they stood."""
    device = core.devices[fault.first.device] if fault.first.device < len(core.devices) else None
    gpu = f"GPU {fault.first.device}" + (f" ({device.name}, {device.bus})" if device else "")
    by = {
        "lane": "the thread's own row",
        "warp": "the multiprocessor's row, of the active threads of a warp with an error address",
        "sm": "the multiprocessor's row alone",
        "trap": "the warp's row",
    }[fault.source]
    rows = [Evidence(gpu, f"{what}; said by {by}")]
    if fault.detail:
        rows.append(Evidence("the driver", fault.detail))
    if fault.has_thread:
        one = fault.first
        rows.append(
            Evidence(
                f"block {triple(one.block)}, thread {triple(one.thread)}",
                f"multiprocessor {one.multiprocessor}, warp {one.warp}, lane {one.lane}; in all "
                f"{counted(fault.threads, 'thread')} of {counted(fault.warps, 'warp')} in "
                f"{counted(fault.blocks, 'block')} failed there",
            )
        )
    for index, frame in enumerate(fault.frames[:_MOST_FRAMES]):
        for place in frame.places or (None,):
            name = (
                place.function if place is not None and place.function else "code not in the dump"
            )
            where = f" at {place.file}:{place.line}" if place is not None and place.file else ""
            inlined = ", inlined" if place is not None and place.inlined else ""
            rows.append(
                Evidence(f"GPU frame {index}", f"{name}{where}{inlined} (pc {address(frame.pc)})")
            )
    if fault.target_block is not None:
        rows.append(Evidence("cluster", f"the block that was asked: {triple(fault.target_block)}"))
    return tuple(rows)
