"""A core dump of CUDA GPUs to facts, through the native reader."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.errors import EvidenceError
from postmortem.facts import gpu_core
from postmortem.facts.source import Problem
from postmortem.records import of_row

if TYPE_CHECKING:
    from postmortem._native import RawFact, RawGpuCore, RawGpuDevice, RawGpuFocus, RawGpuGrid

_NAMES = (
    # What `postmortem run` asks for, and what the driver takes by itself: core_TIME_HOST_PID.
    re.compile(r"^core\.(?P<host>.+)\.(?P<pid>\d{1,18})\.nvcudmp(\.\w+)?$"),
    re.compile(r"^core_\d+_(?P<host>.+)_(?P<pid>\d{1,18})\.nvcudmp(\.\w+)?$"),
)
_ONE = (1, 1, 1)
_AMD_NAME = re.compile(r"^gpucore\.(\d{1,10})$")
# kfd_dbg_trap_exception_code in linux/kfd_ioctl.h: those that tell of a failure.
_AMD_EXCEPTIONS = {
    1: "a wave aborted",
    2: "a wave stood at a trap",
    3: "a wave had an error of arithmetic",
    4: "a wave met an illegal instruction",
    5: "a wave accessed memory that is not mapped for it",
    6: "a wave used an address of the wrong kind of memory",
    33: "the GPU accessed memory that is not mapped for it",
    34: "the GPU found errors of its hardware (RAS)",
    35: "the GPU was halted by a fatal error",
}


def read_gpu_core(
    path: str, *, named: str | None = None, memory_bytes: int = 0
) -> gpu_core.GpuCore:
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


def _facts(raw: RawGpuCore, path: str) -> gpu_core.GpuCore:
    host, pid = _named(path)
    meta = raw["metadata"]
    return of_row(
        gpu_core.GpuCore,
        raw,
        path=path,
        driver=f"{meta['driver_major']}.{meta['driver_minor']:02}"
        if meta and meta["driver_major"]
        else None,
        cuda=f"{meta['cuda_major']}.{meta['cuda_minor']}" if meta and meta["cuda_major"] else None,
        written=meta["timestamp"] or None if meta else None,
        devices=tuple(_device(row) for row in raw["devices"]),
        kernels=tuple(_kernel(row) for row in raw["grids"]),
        faults=tuple(_fault(row) for row in raw["faults"]),
        stands=tuple(_stand(row) for row in raw["stands"]),
        kernels_left_out=raw["grids_left_out"],
        threads=raw["lanes"],
        contexts=tuple((device, tid) for device, _, tid in raw["contexts"]),
        modules=len(raw["modules"]),
        modules_with_code=sum(1 for row in raw["modules"] if row["bytes"]),
        modules_with_lines=sum(1 for row in raw["modules"] if row["has_lines"]),
        global_bytes=raw["global_bytes"] + raw["managed_bytes"],
        registers=None if raw["focus"] is None else _registers(raw["focus"]),
        pid=pid,
        hostname=host,
        problems=tuple(Problem(**row) for row in raw["problems"]),
    )


def read_amd_core(path: str, *, named: str | None = None) -> gpu_core.GpuCore:
    """Return what a core of AMD's GPUs says: GPUs, queues and code; raises as `read_gpu_core`."""
    from postmortem import _native

    called = named or path
    try:
        raw = _native.read_amd_core(path)
    except EvidenceError as error:
        hint = "rocgdb opens cores of AMD's GPUs"
        raise EvidenceError(called, error.what, offset=error.offset, hint=hint) from error
    place = {row["id"]: number for number, row in enumerate(raw["agents"])}
    found = _AMD_NAME.match(Path(called).name)
    return of_row(
        gpu_core.GpuCore,
        raw,
        path=called,
        driver="KFD {}.{}".format(*raw["driver"]),
        devices=tuple(
            gpu_core.GpuDevice(
                name=f"AMD GPU {row['vendor']:04x}:{row['device']:04x}",
                architecture=_target(row["target"]),
                bus=f"{row['location'] >> 8 & 0xFF:02x}:{row['location'] >> 3 & 0x1F:02x}",
                multiprocessors=None,
                exceptions=_exceptions(row["exceptions"]),
            )
            for row in raw["agents"]
        ),
        modules=len(raw["code_objects"]),
        modules_with_code=len(raw["code_objects"]),
        global_bytes=raw["memory_bytes"],
        pid=int(found[1]) if found is not None else None,
        vendor="AMD",
        queues=tuple(
            of_row(
                gpu_core.GpuQueue,
                row,
                device=place.get(row["agent"]),
                exceptions=_exceptions(row["exceptions"]),
            )
            for row in raw["queues"]
        ),
        problems=tuple(Problem(**one) for one in raw["problems"]),
    )


def _target(number: int) -> str:
    """Return ``gfx90a`` for 90010: major, minor and stepping, the last two in hexadecimal."""
    return f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"


def _exceptions(bits: int) -> tuple[str, ...]:
    return tuple(words for number, words in _AMD_EXCEPTIONS.items() if bits >> (number - 1) & 1)


def _named(path: str) -> tuple[str | None, int | None]:
    for form in _NAMES:
        found = form.match(Path(path).name)
        if found is not None and len(found["pid"]) < 11:
            return found["host"], int(found["pid"])
    return None, None


def _device(row: RawGpuDevice) -> gpu_core.GpuDevice:
    return gpu_core.GpuDevice(
        name=row["name"] or row["chip"] or "a GPU without a name",
        architecture=row["sm_type"] or f"sm_{row['sm_major']}{row['sm_minor']}",
        bus=f"{row['pci_bus']:02x}:{row['pci_device']:02x}",
        multiprocessors=row["sms"],
    )


def _kernel(row: RawGpuGrid) -> gpu_core.GpuKernel:
    cluster = row["cluster_size"]
    return of_row(
        gpu_core.GpuKernel,
        row,
        grid=row["id"],
        name=row["kernel"],
        cluster_size=cluster if cluster > _ONE else None,
        host_tid=row["host_tid"] or None,
    )


def _frames(rows: Sequence[RawFact]) -> tuple[gpu_core.GpuFrame, ...]:
    return tuple(
        gpu_core.GpuFrame(
            row["pc"],
            row["offset"],
            tuple(
                gpu_core.GpuPlace(function, file, line or None, inlined)
                for function, file, line, inlined in row["places"]
            ),
        )
        for row in rows
    )


def _fault(row: RawFact) -> gpu_core.GpuFault:
    nested = {"first": gpu_core.GpuThread(**row["first"]), "frames": _frames(row["frames"])}
    return gpu_core.GpuFault(**row | nested)


def _stand(row: RawFact) -> gpu_core.GpuStand:
    threads = tuple(gpu_core.GpuThread(**one) for one in row["some"])
    return gpu_core.GpuStand(**row | {"some": threads, "frames": _frames(row["frames"])})


def _registers(row: RawGpuFocus) -> gpu_core.GpuRegisters:
    return of_row(
        gpu_core.GpuRegisters,
        row,
        local=None if row["local"] is None else gpu_core.GpuMemory(*row["local"]),
        shared=None if row["shared"] is None else gpu_core.GpuMemory(*row["shared"]),
    )
