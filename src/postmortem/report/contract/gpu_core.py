"""Kind ``gpu_core``: a core dump of GPUs."""

from __future__ import annotations

from typing import Literal

from postmortem.facts import gpu_core
from postmortem.facts.gpu_core import GpuDevice, GpuKernel, GpuQueue
from postmortem.report.contract import Shape
from postmortem.text import Pointer


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


class Thread(Shape, of=gpu_core.GpuThread, without=("device",)):
    pass


class Exception_(Shape, of=gpu_core.GpuFault, without=("has_thread",)):
    code: int | None
    """CUDBGException_t; null of a trap"""
    name: str
    words: str
    exact: str
    """what the GPU knows: `lane`, `warp`, `cluster`, `device`"""
    logs: str | None
    """what CUDA calls it in the process"""
    device: int
    multiprocessor: int
    kernel: str | None
    first: Thread | None
    """null where only the multiprocessor is known"""


class Stand(Shape, of=gpu_core.GpuStand):
    kernel: str | None
    some: list[Thread]


class Totals(Shape):
    blocks: int
    warps: int
    threads: int


class Bytes(Shape):
    global_bytes: int
    shared_bytes: int
    local_bytes: int


class Memory(Shape):
    address: Pointer
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
    devices: list[GpuDevice]
    contexts: list[Context]
    """the thread of the process that owns each"""
    modules: Modules
    """modules of code: how many there are, with their code, with lines"""
    kernels: list[GpuKernel]
    """grids, most warps first"""
    kernels_left_out: int
    exceptions: list[Exception_]
    """threads that failed alike, the most exact first"""
    stands: list[Stand]
    """threads that stood alike, most warps first"""
    stands_left_out: int
    queues: list[GpuQueue]
    """of AMD's GPUs; of their waves nothing else is read"""
    code_objects: list[Pointer]
    """of AMD's GPUs: where the code lies that is in the dump"""
    totals: Totals
    """on the GPUs"""
    memory: Bytes
    """in the dump"""
    registers: Registers | None
    """of the first thread that failed; null where none did"""
