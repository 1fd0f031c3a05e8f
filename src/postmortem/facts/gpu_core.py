"""What a core dump of a GPU says: what it ran, where its threads stood, what failed."""

from __future__ import annotations

from postmortem.facts.source import Problem
from postmortem.records import record
from postmortem.text import Pointer

Three = tuple[int, int, int]


@record
class GpuDevice:
    """One GPU."""

    name: str
    architecture: str
    """``"sm_90"``."""
    bus: str
    """``"18:00"``: PCI bus and device."""
    multiprocessors: int | None
    exceptions: tuple[str, ...] = ()
    """What the driver of an AMD GPU noted of it."""


@record
class GpuPlace:
    """A place in source that an address stands for."""

    function: str | None
    file: str | None = None
    """None: the kernel was compiled without -lineinfo."""
    line: int | None = None
    inlined: bool = False
    """Into the place after it."""


@record
class GpuFrame:
    """One frame of a thread."""

    pc: Pointer
    offset: int | None = None
    """From the start of the function."""
    places: tuple[GpuPlace, ...] = ()
    """The innermost first; empty where the code is not in the dump."""


@record
class GpuThread:
    """One thread, by the numbers of the program and of the hardware."""

    device: int
    """Place in `GpuCore.devices`."""
    multiprocessor: int
    warp: int
    lane: int
    grid: int
    block: Three
    thread: Three


@record
class GpuKernel:
    """One kernel that was launched: a grid of blocks."""

    device: int
    grid: int
    name: str | None
    """As in source, with its parameters; None: the dump lacks its code."""
    grid_size: Three
    block_size: Three
    cluster_size: Three | None
    blocks: int
    """On the GPU when the dump was written."""
    warps: int
    registers: int
    host_tid: int | None
    """Thread of the process that launched it."""
    blocking: bool
    """The launch waited for it (CUDA_LAUNCH_BLOCKING=1)."""


@record
class GpuFault:
    """Threads that failed alike."""

    source: str
    """Who says it: ``"lane"``, ``"warp"``, ``"sm"`` (all its warps had left) or ``"trap"``."""
    code: int
    """CUDBGException_t; 0 for a trap."""
    pc: Pointer | None
    first: GpuThread
    has_thread: bool
    """False: only the multiprocessor in `first` is known."""
    threads: int
    warps: int
    blocks: int
    detail: str | None
    """What the driver says in words (r580 and later)."""
    target_block: Three | None
    """Of a fault in a cluster: the block that was asked."""
    frames: tuple[GpuFrame, ...]


@record
class GpuStand:
    """Threads that stood alike: at one place, called alike."""

    device: int
    grid: int
    threads: int
    active: int
    warps: int
    blocks: int
    failed: int
    in_system: int
    """In code of the driver: printf, malloc, assert."""
    some: tuple[GpuThread, ...]
    frames: tuple[GpuFrame, ...]


@record
class GpuMemory:
    """Shared memory of a block, or local memory of a thread."""

    address: Pointer
    size: int
    data: bytes
    """As much of its begin as was asked for."""


@record
class GpuQueue:
    """One queue of an AMD GPU."""

    id: int
    device: int | None
    """Place in `GpuCore.devices`."""
    exceptions: tuple[str, ...]
    saved_bytes: int
    """Room for the registers of its waves."""


@record
class GpuRegisters:
    """What the dump has of the first thread that failed."""

    registers: tuple[int, ...]
    predicates: tuple[int, ...]
    uniform: tuple[int, ...]
    valid_lanes: int
    active_lanes: int
    local: GpuMemory | None = None
    shared: GpuMemory | None = None


@record
class GpuCore:
    """One dump."""

    path: str
    size_bytes: int
    expected_bytes: int
    driver: str | None
    """``"570.86"``; None: the driver is older than r565."""
    devices: tuple[GpuDevice, ...]
    modules: int
    modules_with_code: int
    global_bytes: int
    cuda: str | None = None
    written: int | None = None
    """Seconds since 1970."""
    kernels: tuple[GpuKernel, ...] = ()
    faults: tuple[GpuFault, ...] = ()
    """The most exact first."""
    stands: tuple[GpuStand, ...] = ()
    """Most warps first."""
    stands_left_out: int = 0
    kernels_left_out: int = 0
    blocks: int = 0
    warps: int = 0
    threads: int = 0
    contexts: tuple[tuple[int, int], ...] = ()
    """(place of the device, thread of the process that owns it) of each."""
    modules_with_lines: int = 0
    shared_bytes: int = 0
    local_bytes: int = 0
    registers: GpuRegisters | None = None
    pid: int | None = None
    """Of the process, where the file's name says it."""
    hostname: str | None = None
    vendor: str = "NVIDIA"
    queues: tuple[GpuQueue, ...] = ()
    """Of AMD's GPUs, of whose waves nothing else is read."""
    code_objects: tuple[Pointer, ...] = ()
    """Addresses of the code of AMD's GPUs that is in the dump."""
    problems: tuple[Problem, ...] = ()

    @property
    def truncated(self) -> bool:
        """Whether sections are missing at the end."""
        return self.size_bytes < self.expected_bytes

    def kernel_of(self, device: int, grid: int) -> GpuKernel | None:
        """Return the kernel of a grid."""
        found = (k for k in self.kernels if (k.device, k.grid) == (device, grid))
        return next(found, None)
