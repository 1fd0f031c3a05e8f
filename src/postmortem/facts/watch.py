"""What processes held over time: memory, descriptors, threads, and the limit above them."""

from __future__ import annotations

from collections.abc import Sequence

from postmortem.records import record

MIB = 1 << 20


@record
class Sample:
    """One process at one moment; sizes in bytes, -1 where it was not asked."""

    time: float
    """Seconds since the epoch."""
    rss_bytes: int
    anonymous_bytes: int
    """Memory of its own: heap, stacks, tensors."""
    file_bytes: int
    """Mapped pages of files: the kernel takes them back when it needs to."""
    shared_bytes: int
    """Shared memory: /dev/shm, tensors between processes."""
    locked_bytes: int
    """Locked or pinned (VmLck, VmPin)."""
    swap_bytes: int
    pss_bytes: int = -1
    descriptors: int = -1
    threads: int = -1
    gpu_bytes: int = -1
    """What it holds on all GPUs."""

    @property
    def held(self) -> int:
        """What only this process can give back: what a memory kill counts."""
        return self.anonymous_bytes + self.shared_bytes + self.swap_bytes


@record
class Watched:
    """One process over time."""

    pid: int
    command: str
    rank: int | None
    samples: tuple[Sample, ...]
    ended: bool = False
    lines: tuple[tuple[str, int], ...] = ()
    """Where its Python code stood while it grew, and how often; the most frequent first."""
    looks: int = 0
    """How often that was looked at."""

    @property
    def label(self) -> str:
        """``rank 3`` or ``pid 4711``."""
        return f"rank {self.rank} (pid {self.pid})" if self.rank is not None else f"pid {self.pid}"


@record
class Ceiling:
    """A limit on memory and how much of it was used, over time."""

    name: str
    limit_bytes: int
    used: tuple[tuple[float, int], ...]


@record
class Watching:
    """What one watch has seen."""

    processes: tuple[Watched, ...]
    ceilings: tuple[Ceiling, ...]
    seconds: float
    interval_seconds: float
    asked: tuple[int, ...] = ()
    """The processes that were named; none of a job, or in a ring file, which names none."""

    @property
    def ended(self) -> bool:
        """Whether all that was to be watched has ended."""
        own = [one for one in self.processes if not self.asked or one.pid in self.asked]
        return bool(own) and all(one.ended for one in own)


@record
class Trend:
    """A straight line through values over time."""

    per_second: float
    fit: float
    """0 to 1: how much of what changes the line explains (R²)."""
    seconds: float


def trend(points: Sequence[tuple[float, float]]) -> Trend | None:
    """Return the line of least squares; None for fewer than eight points or no time."""
    count = len(points)
    if count < 8:
        return None
    mean_t = sum(t for t, _ in points) / count
    mean_v = sum(v for _, v in points) / count
    across = sum((t - mean_t) ** 2 for t, _ in points)
    along = sum((v - mean_v) ** 2 for _, v in points)
    both = sum((t - mean_t) * (v - mean_v) for t, v in points)
    if across <= 0:
        return None
    fit = both * both / (across * along) if along > 0 else 0.0
    return Trend(both / across, min(1.0, fit), points[-1][0] - points[0][0])


def growth(points: Sequence[tuple[float, float]], least: float = 8 * MIB) -> Trend | None:
    """Return the trend where values grow steadily, in the second half as in all; else None."""
    whole = trend(points)
    if whole is None or whole.per_second <= 0 or whole.fit < 0.7:
        return None
    if whole.per_second * whole.seconds < max(least, 0.02 * points[-1][1]):
        return None
    half = trend(points[len(points) // 2 :])
    if half is not None and half.per_second < 0.4 * whole.per_second:
        return None  # it grew, and has stopped: a program that loads
    return whole
