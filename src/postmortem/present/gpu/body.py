"""The fields of ``kind gpu_core``."""

from postmortem.facts.gpu_core import GpuCore, GpuFault, GpuMemory, GpuRegisters, GpuStand
from postmortem.knowledge.cuda_exceptions import cuda_exception
from postmortem.report.contract import fill
from postmortem.report.contract import gpu_core as shapes


def gpu_body(core: GpuCore) -> dict[str, object]:
    """Return the fields of the JSON report."""
    return fill(
        shapes.GpuCore,
        core,
        process=fill(shapes.Process, core),
        contexts=[
            fill(shapes.Context, device=device, tid=tid or None) for device, tid in core.contexts
        ],
        modules=fill(
            shapes.Modules,
            count=core.modules,
            with_code=core.modules_with_code,
            with_lines=core.modules_with_lines,
        ),
        exceptions=[_fault(core, one) for one in core.faults],
        stands=[_stand(core, one) for one in core.stands],
        totals=fill(shapes.Totals, core),
        memory=fill(shapes.Bytes, core),
        registers=None if core.registers is None else _registers(core.registers),
    )


def _fault(core: GpuCore, one: GpuFault) -> dict[str, object]:
    what = cuda_exception(one.code) if one.code else None
    kernel = core.kernel_of(one.first.device, one.first.grid) if one.has_thread else None
    return fill(
        shapes.Exception_,
        one,
        code=one.code or None,
        name=what.name if what is not None else "TRAP",
        words=what.words if what is not None else "a trap or breakpoint",
        exact=what.exact if what is not None else "warp",
        logs=(what.logs or None) if what is not None else None,
        device=one.first.device,
        multiprocessor=one.first.multiprocessor,
        kernel=kernel.name if kernel is not None else None,
        first=one.first if one.has_thread else None,
    )


def _stand(core: GpuCore, one: GpuStand) -> dict[str, object]:
    kernel = core.kernel_of(one.device, one.grid)
    return fill(shapes.Stand, one, kernel=kernel.name if kernel is not None else None)


def _registers(one: GpuRegisters) -> dict[str, object]:
    return fill(
        shapes.Registers,
        registers=[f"0x{value:08x}" for value in one.registers],
        predicates=[bool(value) for value in one.predicates],
        uniform=[f"0x{value:08x}" for value in one.uniform],
        valid_lanes=f"0x{one.valid_lanes:08x}",
        active_lanes=f"0x{one.active_lanes:08x}",
        local=_memory(one.local),
        shared=_memory(one.shared),
    )


def _memory(one: GpuMemory | None) -> dict[str, object] | None:
    if one is None:
        return None
    return fill(shapes.Memory, one, size_bytes=one.size, data=one.data.hex())
