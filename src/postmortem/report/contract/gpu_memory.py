"""Kind ``gpu_memory``: snapshots of PyTorch's CUDA allocator."""

from __future__ import annotations

from postmortem.facts import gpu_memory
from postmortem.report.contract import Shape


class Owner(Shape):
    function: str | None
    """null: allocated before the recording began"""
    file: str | None
    line: int | None
    bytes: int
    blocks: int


class Peak(Shape):
    bytes: int
    owners: list[Owner]
    """20 at most, those with most first"""


class OutOfMemory(Shape, of=gpu_memory.OutOfMemory, without=("frames",)):
    function: str | None
    file: str | None
    line: int | None


class DeviceMemory(Shape, of=gpu_memory.DeviceMemory, without=("unfreed",)):
    owners: list[Owner]
    """at the time of the snapshot: 20 at most, those with most first"""
    peak: Peak | None
    """null without a recording"""
    failures: list[OutOfMemory]


class Snapshot(Shape, of=gpu_memory.MemorySnapshot):
    devices: list[DeviceMemory]


class GpuMemory(Shape):
    snapshots: list[Snapshot]
