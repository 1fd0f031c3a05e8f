"""Kind ``watch``: what processes held over time."""

from __future__ import annotations

from postmortem.facts import watch
from postmortem.report.contract import Shape


class Sample(Shape, of=watch.Sample):
    pss_bytes: int | None
    descriptors: int | None
    threads: int | None
    gpu_bytes: int | None


class GrewAt(Shape):
    line: str
    times: int


class Process(Shape, of=watch.Watched, without=("lines",)):
    samples: list[Sample]
    """241 at most, spread over the watch; bytes and counts as in [watch.md](watch.md)"""
    grew_at: list[GrewAt]
    """where its Python code stood when it had just grown"""


class Limit(Shape, of=watch.Ceiling, without=("used",)):
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
