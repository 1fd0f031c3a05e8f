"""The fields of ``kind gpu_core``."""

from __future__ import annotations

from postmortem.facts.gpu_core import (
    GpuCore,
    GpuFault,
    GpuFrame,
    GpuKernel,
    GpuMemory,
    GpuRegisters,
    GpuStand,
    GpuThread,
)
from postmortem.knowledge.cuda_exceptions import cuda_exception
from postmortem.text import address, address_or_null


def gpu_body(core: GpuCore) -> dict[str, object]:
    """Return the fields of the JSON report."""
    return {
        "vendor": core.vendor,
        "process": {"pid": core.pid, "hostname": core.hostname},
        "driver": core.driver,
        "cuda": core.cuda,
        "written": core.written,
        "devices": [
            {
                "name": one.name,
                "architecture": one.architecture,
                "bus": one.bus,
                "multiprocessors": one.processors,
                "exceptions": list(one.exceptions),
            }
            for one in core.devices
        ],
        "contexts": [{"device": device, "tid": tid or None} for device, tid in core.contexts],
        "modules": {
            "count": core.modules,
            "with_code": core.modules_with_code,
            "with_lines": core.modules_with_lines,
        },
        "kernels": [_kernel(one) for one in core.kernels],
        "kernels_left_out": core.kernels_left_out,
        "exceptions": [_fault(core, one) for one in core.faults],
        "stands": [_stand(core, one) for one in core.stands],
        "stands_left_out": core.stands_left_out,
        "queues": [
            {
                "id": one.id,
                "device": one.device,
                "exceptions": list(one.exceptions),
                "saved_bytes": one.saved_bytes,
            }
            for one in core.queues
        ],
        "code_objects": [address(one) for one in core.code_objects],
        "totals": {"blocks": core.blocks, "warps": core.warps, "threads": core.threads},
        "memory": {
            "global_bytes": core.global_bytes,
            "shared_bytes": core.shared_bytes,
            "local_bytes": core.local_bytes,
        },
        "registers": None if core.registers is None else _registers(core.registers),
    }


def _kernel(one: GpuKernel) -> dict[str, object]:
    return {
        "device": one.device,
        "grid": one.grid,
        "name": one.name,
        "grid_size": list(one.grid_size),
        "block_size": list(one.block_size),
        "cluster_size": None if one.cluster_size is None else list(one.cluster_size),
        "blocks": one.blocks,
        "warps": one.warps,
        "registers": one.registers,
        "host_tid": one.host_tid,
        "blocking": one.blocking,
    }


def _fault(core: GpuCore, one: GpuFault) -> dict[str, object]:
    what = cuda_exception(one.code) if one.code else None
    kernel = core.kernel_of(one.first.device, one.first.grid) if one.has_thread else None
    return {
        "code": one.code or None,
        "name": what.name if what is not None else "TRAP",
        "words": what.words if what is not None else "a trap or breakpoint",
        "exact": what.exact if what is not None else "warp",
        "logs": (what.logs or None) if what is not None else None,
        "source": one.source,
        "detail": one.detail,
        "device": one.first.device,
        "multiprocessor": one.first.sm,
        "kernel": kernel.name if kernel is not None else None,
        "first": _thread(one.first) if one.has_thread else None,
        "threads": one.threads,
        "warps": one.warps,
        "blocks": one.blocks,
        "target_block": None if one.target_block is None else list(one.target_block),
        "pc": address_or_null(one.pc),
        "frames": _frames(one.frames),
    }


def _stand(core: GpuCore, one: GpuStand) -> dict[str, object]:
    kernel = core.kernel_of(one.device, one.grid)
    return {
        "device": one.device,
        "grid": one.grid,
        "kernel": kernel.name if kernel is not None else None,
        "threads": one.threads,
        "active": one.active,
        "warps": one.warps,
        "blocks": one.blocks,
        "failed": one.failed,
        "in_system": one.in_system,
        "some": [_thread(thread) for thread in one.some],
        "frames": _frames(one.frames),
    }


def _thread(one: GpuThread) -> dict[str, object]:
    return {
        "grid": one.grid,
        "block": list(one.block),
        "thread": list(one.thread),
        "multiprocessor": one.sm,
        "warp": one.warp,
        "lane": one.lane,
    }


def _frames(frames: tuple[GpuFrame, ...]) -> list[dict[str, object]]:
    return [
        {
            "pc": address(frame.pc),
            "offset": frame.offset,
            "places": [
                {
                    "function": place.function,
                    "file": place.file,
                    "line": place.line,
                    "inlined": place.inlined,
                }
                for place in frame.places
            ],
        }
        for frame in frames
    ]


def _registers(one: GpuRegisters) -> dict[str, object]:
    return {
        "registers": [f"0x{value:08x}" for value in one.registers],
        "predicates": [bool(value) for value in one.predicates],
        "uniform": [f"0x{value:08x}" for value in one.uniform],
        "valid_lanes": f"0x{one.valid_lanes:08x}",
        "active_lanes": f"0x{one.active_lanes:08x}",
        "local": _memory(one.local),
        "shared": _memory(one.shared),
    }


def _memory(one: GpuMemory | None) -> dict[str, object] | None:
    if one is None:
        return None
    return {"address": address(one.address), "size_bytes": one.size, "data": one.data.hex()}
