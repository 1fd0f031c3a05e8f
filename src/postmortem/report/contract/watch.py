"""Kind ``watch``: what processes held over time."""

from __future__ import annotations

from postmortem.report.contract import Shape


class Sample(Shape):
    time: float
    rss_bytes: int
    anonymous_bytes: int
    file_bytes: int
    shared_bytes: int
    locked_bytes: int
    swap_bytes: int
    pss_bytes: int | None
    descriptors: int | None
    threads: int | None
    gpu_bytes: int | None


class GrewAt(Shape):
    line: str
    times: int


class Process(Shape):
    pid: int
    rank: int | None
    command: str
    ended: bool
    samples: list[Sample]
    """241 at most, spread over the watch; bytes and counts as in [watch.md](watch.md)"""
    grew_at: list[GrewAt]
    """where its Python code stood when it had just grown"""
    looks: int
    """how often that was asked"""


class Limit(Shape):
    name: str
    limit_bytes: int
    used_bytes: int
    """at the last look"""


class Watch(Shape):
    seconds: float
    """how long was watched"""
    interval_seconds: float
    """between looks, as asked for"""
    processes: list[Process]
    limits: list[Limit]
    """memory limits above the first process"""
