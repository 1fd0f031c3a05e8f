"""Kind ``gpu_core``: a core dump of GPUs."""

from __future__ import annotations

from typing import Literal

from postmortem.report.contract import Address, Shape


class GpuProcess(Shape):
    pid: int | None
    hostname: str | None


class GpuDevice(Shape):
    name: str
    architecture: str
    bus: str
    """PCI bus and device"""
    multiprocessors: int | None
    exceptions: list[str]
    """what the driver of an AMD GPU noted"""


class GpuContext(Shape):
    device: int
    tid: int | None
    """the thread of the process that owns it"""


class GpuModules(Shape):
    count: int
    with_code: int
    with_lines: int


class GpuKernel(Shape):
    device: int
    grid: int
    name: str | None
    grid_size: list[int]
    block_size: list[int]
    cluster_size: list[int] | None
    blocks: int
    """on the GPU"""
    warps: int
    registers: int
    host_tid: int | None
    """who launched it"""
    blocking: bool
    """the launch waited"""


class GpuThread(Shape):
    grid: int
    block: list[int]
    thread: list[int]
    multiprocessor: int
    warp: int
    lane: int


class GpuPlace(Shape):
    function: str | None
    file: str | None
    """null without -lineinfo"""
    line: int | None
    inlined: bool


class GpuFrame(Shape):
    pc: Address
    offset: int | None
    places: list[GpuPlace]
    """the innermost first, each inlined into the next; empty: the code is not in the dump"""


class GpuException(Shape):
    code: int | None
    """null: a trap or a breakpoint"""
    name: str
    words: str
    exact: Literal["lane", "warp", "cluster", "device"]
    """what the GPU knows"""
    logs: str | None
    """what CUDA calls it in the process"""
    source: Literal["lane", "warp", "sm", "trap"]
    """who says it"""
    detail: str | None
    device: int
    multiprocessor: int
    kernel: str | None
    first: GpuThread | None
    """null where only the multiprocessor is known"""
    threads: int
    warps: int
    blocks: int
    target_block: list[int] | None
    """the block of the cluster that was asked"""
    pc: Address | None
    frames: list[GpuFrame]


class GpuStand(Shape):
    device: int
    grid: int
    kernel: str | None
    threads: int
    active: int
    warps: int
    blocks: int
    failed: int
    in_system: int
    """in code of the driver"""
    some: list[GpuThread]
    frames: list[GpuFrame]


class GpuQueue(Shape):
    id: int
    device: int | None
    exceptions: list[str]
    saved_bytes: int


class GpuTotals(Shape):
    blocks: int
    warps: int
    threads: int


class GpuMemory(Shape):
    global_bytes: int
    shared_bytes: int
    local_bytes: int


class GpuBytes(Shape):
    address: Address
    size_bytes: int
    data: str
    """hexadecimal; the first 256 bytes with `-v`, else empty"""


class GpuRegisters(Shape):
    registers: list[str]
    predicates: list[bool]
    uniform: list[str]
    valid_lanes: str
    active_lanes: str
    local: GpuBytes | None
    shared: GpuBytes | None


class GpuCore(Shape):
    vendor: Literal["NVIDIA", "AMD"]
    process: GpuProcess
    """as the name of the file says: the dump itself does not know it"""
    driver: str | None
    cuda: str | None
    written: int | None
    """seconds since 1970; null before driver r565"""
    devices: list[GpuDevice]
    contexts: list[GpuContext]
    modules: GpuModules
    kernels: list[GpuKernel]
    """grids, most warps first"""
    kernels_left_out: int
    exceptions: list[GpuException]
    """threads that failed alike, the most exact first"""
    stands: list[GpuStand]
    """threads that stood alike, most warps first"""
    stands_left_out: int
    queues: list[GpuQueue]
    """of AMD's GPUs, of which nothing else is read"""
    code_objects: list[Address]
    """where code of AMD's GPUs lies"""
    totals: GpuTotals
    memory: GpuMemory
    registers: GpuRegisters | None
    """of the first thread that failed; null where none did"""
