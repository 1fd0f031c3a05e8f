"""Kind ``gpu_memory``: snapshots of PyTorch's CUDA allocator."""

from __future__ import annotations

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


class OutOfMemory(Shape):
    bytes: int
    """asked for"""
    free_bytes: int
    """left on the GPU"""
    allocated_bytes: int
    """at that moment"""
    function: str | None
    file: str | None
    line: int | None
    later_allocations: int
    """that succeeded: the program went on"""


class DeviceMemory(Shape):
    device: int
    reserved_bytes: int
    """that PyTorch has from the driver"""
    allocated_bytes: int
    """of these in use, as asked for"""
    rounding_bytes: int
    free_bytes: int
    """of these in no use"""
    largest_hole_bytes: int
    segments: int
    blocks: int
    expandable: bool
    owners: list[Owner]
    """at the time of the snapshot: 20 at most, those with most first"""
    events: int
    """of the recording"""
    peak: Peak | None
    """null without a recording"""
    failures: list[OutOfMemory]


class Snapshot(Shape):
    path: str
    rank: int | None
    devices: list[DeviceMemory]


class GpuMemory(Shape):
    snapshots: list[Snapshot]
