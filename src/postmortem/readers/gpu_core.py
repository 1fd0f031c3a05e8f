"""A core dump of CUDA GPUs to facts, through the native reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.errors import EvidenceError
from postmortem.facts.gpu_core import (
    GpuCore,
    GpuDevice,
    GpuFault,
    GpuFrame,
    GpuKernel,
    GpuMemory,
    GpuPlace,
    GpuRegisters,
    GpuStand,
    GpuThread,
)
from postmortem.facts.source import Problem

if TYPE_CHECKING:
    from postmortem._native import (
        RawGpuCore,
        RawGpuDevice,
        RawGpuFault,
        RawGpuFocus,
        RawGpuFrame,
        RawGpuGrid,
        RawGpuStand,
        RawGpuWhere,
    )

_NAMES = (
    # What `postmortem run` asks for, and what the driver takes by itself: core_TIME_HOST_PID.
    re.compile(r"^core\.(?P<host>.+)\.(?P<pid>\d+)\.nvcudmp(\.\w+)?$"),
    re.compile(r"^core_\d+_(?P<host>.+)_(?P<pid>\d+)\.nvcudmp(\.\w+)?$"),
)
_ONE = (1, 1, 1)


def read_gpu_core(path: str, *, named: str | None = None, memory_bytes: int = 0) -> GpuCore:
    """Return what a dump says; raises `EvidenceError` where it is none or is cut before its tables.

    `named` is what the user calls it, where `path` is an unpacked copy; `memory_bytes` is how much
    of the local and shared memory of the first thread that failed is read.
    """
    from postmortem import _native

    called = named or path
    try:
        raw = _native.read_cuda_core(path, memory_bytes=memory_bytes)
    except EvidenceError as error:
        hint = "copy it again if the original is whole; a full disk or a killed process cuts dumps"
        raise EvidenceError(called, error.what, offset=error.offset, hint=hint) from error
    return _facts(raw, called)


def _facts(raw: RawGpuCore, path: str) -> GpuCore:
    host, pid = _named(path)
    meta = raw["metadata"]
    return GpuCore(
        path=path,
        size_bytes=raw["size_bytes"],
        expected_bytes=raw["expected_bytes"],
        driver=f"{meta[1]}.{meta[2]:02}" if meta and meta[1] else None,
        cuda=f"{meta[3]}.{meta[4]}" if meta and meta[3] else None,
        written=meta[6] if meta and meta[6] else None,
        devices=tuple(_device(row) for row in raw["devices"]),
        kernels=tuple(_kernel(row) for row in raw["grids"]),
        faults=tuple(_fault(row) for row in raw["faults"]),
        stands=tuple(_stand(row) for row in raw["stands"]),
        stands_left_out=raw["stands_left_out"],
        kernels_left_out=raw["grids_left_out"],
        blocks=raw["blocks"],
        warps=raw["warps"],
        threads=raw["lanes"],
        contexts=tuple((device, tid) for device, _, tid in raw["contexts"]),
        modules=len(raw["modules"]),
        modules_with_code=sum(1 for row in raw["modules"] if row[2]),
        modules_with_lines=sum(1 for row in raw["modules"] if row[4]),
        global_bytes=raw["global_bytes"] + raw["managed_bytes"],
        shared_bytes=raw["shared_bytes"],
        local_bytes=raw["local_bytes"],
        registers=None if raw["focus"] is None else _registers(raw["focus"]),
        pid=pid,
        hostname=host,
        problems=tuple(
            Problem(row["where"], row["what"], row["remedy"]) for row in raw["problems"]
        ),
    )


def _named(path: str) -> tuple[str | None, int | None]:
    for form in _NAMES:
        found = form.match(Path(path).name)
        if found is not None and len(found["pid"]) < 11:
            return found["host"], int(found["pid"])
    return None, None


def _device(row: RawGpuDevice) -> GpuDevice:
    return GpuDevice(
        name=row["name"] or row["chip"] or "a GPU without a name",
        architecture=row["sm_type"] or f"sm_{row['sm_major']}{row['sm_minor']}",
        bus=f"{row['pci_bus']:02x}:{row['pci_device']:02x}",
        processors=row["sms"],
    )


def _kernel(row: RawGpuGrid) -> GpuKernel:
    cluster = row["cluster_size"]
    return GpuKernel(
        device=row["device"],
        grid=row["id"],
        name=row["kernel"],
        grid_size=row["grid_size"],
        block_size=row["block_size"],
        cluster_size=cluster if cluster > _ONE else None,
        blocks=row["blocks"],
        warps=row["warps"],
        registers=row["registers"],
        host_tid=row["host_tid"] or None,
        blocking=row["blocking"],
    )


def _thread(row: RawGpuWhere) -> GpuThread:
    return GpuThread(
        row["device"], row["sm"], row["warp"], row["lane"], row["grid"], row["block"], row["thread"]
    )


def _frames(rows: list[RawGpuFrame]) -> tuple[GpuFrame, ...]:
    return tuple(
        GpuFrame(
            row["pc"],
            row["offset"],
            tuple(
                GpuPlace(function, file, line or None, inlined)
                for function, file, line, inlined in row["places"]
            ),
        )
        for row in rows
    )


def _fault(row: RawGpuFault) -> GpuFault:
    return GpuFault(
        source=row["source"],
        code=row["code"],
        pc=row["pc"],
        first=_thread(row["first"]),
        has_thread=row["has_thread"],
        threads=row["lanes"],
        warps=row["warps"],
        blocks=row["blocks"],
        detail=row["detail"],
        target_block=row["target_block"],
        frames=_frames(row["frames"]),
    )


def _stand(row: RawGpuStand) -> GpuStand:
    return GpuStand(
        device=row["device"],
        grid=row["grid"],
        threads=row["lanes"],
        active=row["active"],
        warps=row["warps"],
        blocks=row["blocks"],
        failed=row["failed"],
        in_system=row["in_system"],
        some=tuple(_thread(one) for one in row["some"]),
        frames=_frames(row["frames"]),
    )


def _registers(row: RawGpuFocus) -> GpuRegisters:
    return GpuRegisters(
        registers=tuple(row["registers"]),
        predicates=tuple(row["predicates"]),
        uniform=tuple(row["uniform_registers"]),
        valid_lanes=row["valid_lanes"],
        active_lanes=row["active_lanes"],
        local=None if row["local"] is None else GpuMemory(*row["local"]),
        shared=None if row["shared"] is None else GpuMemory(*row["shared"]),
    )
