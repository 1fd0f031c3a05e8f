"""Kind ``gpu_core``: a core dump of GPUs."""

from __future__ import annotations

from typing import Literal

from postmortem.report.contract import Address, Shape


class Device(Shape):
    name: str
    architecture: str
    """`sm_90`"""
    bus: str
    """`18:00`: PCI bus and device"""
    multiprocessors: int | None
    exceptions: list[str]
    """what the driver of an AMD GPU noted of it"""


class Process(Shape):
    pid: int | None
    hostname: str | None


class Context(Shape):
    device: int
    tid: int | None


class Modules(Shape):
    count: int
    with_code: int
    with_lines: int


class Kernel(Shape):
    device: int
    grid: int
    name: str | None
    """as in source, with its parameters; null: the dump lacks its code"""
    grid_size: list[int]
    block_size: list[int]
    cluster_size: list[int] | None
    blocks: int
    """on the GPU when the dump was written"""
    warps: int
    registers: int
    host_tid: int | None
    """thread of the process that launched it"""
    blocking: bool
    """the launch waited for it"""


class Thread(Shape):
    grid: int
    block: list[int]
    thread: list[int]
    multiprocessor: int
    warp: int
    lane: int


class Place(Shape):
    function: str | None
    file: str | None
    line: int | None
    """null without `-lineinfo`"""
    inlined: bool
    """into the place after it"""


class Frame(Shape):
    pc: Address
    offset: int | None
    """from the start of the function"""
    places: list[Place]
    """the innermost first; empty where the code is not in the dump"""


class Exception_(Shape):
    code: int | None
    """CUDBGException_t; null of a trap"""
    name: str
    words: str
    exact: str
    """what the GPU knows: `lane`, `warp`, `cluster`, `device`"""
    logs: str | None
    """what CUDA calls it in the process"""
    source: str
    """who says it: `lane`, `warp`, `sm` (all its warps had left), `trap`"""
    detail: str | None
    """what the driver says in words (r580 and later)"""
    device: int
    multiprocessor: int
    kernel: str | None
    first: Thread | None
    """null where only the multiprocessor is known"""
    threads: int
    warps: int
    blocks: int
    target_block: list[int] | None
    """of a fault in a cluster: the block that was asked"""
    pc: Address | None
    frames: list[Frame]


class Stand(Shape):
    device: int
    grid: int
    kernel: str | None
    threads: int
    active: int
    warps: int
    blocks: int
    failed: int
    in_system: int
    """in code of the driver: printf, malloc, assert"""
    some: list[Thread]
    frames: list[Frame]


class Queue(Shape):
    id: int
    device: int | None
    exceptions: list[str]
    saved_bytes: int
    """room for the registers of its waves"""


class Totals(Shape):
    blocks: int
    warps: int
    threads: int


class Bytes(Shape):
    global_bytes: int
    shared_bytes: int
    local_bytes: int


class Memory(Shape):
    address: Address
    size_bytes: int
    data: str
    """hexadecimal; its first 256 bytes, with `-v`"""


class Registers(Shape):
    registers: list[str]
    predicates: list[bool]
    uniform: list[str]
    valid_lanes: str
    active_lanes: str
    local: Memory | None
    shared: Memory | None


class GpuCore(Shape):
    vendor: Literal["NVIDIA", "AMD"]
    process: Process
    """as the name of the file says: the dump itself does not know them"""
    driver: str | None
    """null before driver r565, as `cuda` and `written`"""
    cuda: str | None
    written: int | None
    """seconds since 1970"""
    devices: list[Device]
    contexts: list[Context]
    """the thread of the process that owns each"""
    modules: Modules
    """modules of code: how many there are, with their code, with lines"""
    kernels: list[Kernel]
    """grids, most warps first"""
    kernels_left_out: int
    exceptions: list[Exception_]
    """threads that failed alike, the most exact first"""
    stands: list[Stand]
    """threads that stood alike, most warps first"""
    stands_left_out: int
    queues: list[Queue]
    """of AMD's GPUs; of their waves nothing else is read"""
    code_objects: list[Address]
    """of AMD's GPUs: where the code lies that is in the dump"""
    totals: Totals
    """on the GPUs"""
    memory: Bytes
    """in the dump"""
    registers: Registers | None
    """of the first thread that failed; null where none did"""
