"""What lies under some paths, and what its readers returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from postmortem.facts.source import Problem
from postmortem.records import record


class Kind(StrEnum):
    """What a file is evidence of."""

    CORE = "core"
    STRACE = "strace"
    LOG = "log"
    ERROR_FILE = "error file"
    """torchelastic's error.json."""
    STACKS = "stacks"
    RECORDER = "flight recorder"
    FLIGHT = "monitor"
    KERNEL = "kernel log"
    CHECKPOINT = "checkpoint"
    WATCH = "watch"
    """A ring file of ``postmortem watch``."""
    MEMORY = "memory snapshot"
    """Of PyTorch's allocator of GPU memory."""
    HEALTH = "hardware"
    """What nvidia-smi or DCGM printed."""
    DOCUMENT = "report"
    """A report of ours, as JSON."""
    ARCHIVE = "archive"
    OTHER = "other"


OF_RANKS = frozenset(
    {Kind.LOG, Kind.ERROR_FILE, Kind.STACKS, Kind.RECORDER, Kind.FLIGHT, Kind.KERNEL}
)
"""What is read together, as the logs of the ranks of one job."""
SET_ASIDE = "set aside"
"""The series of runs in folders of old ones."""
LISTED = "listed"
"""The series of what a batch system printed of several jobs."""


@record
class Item:
    """One file and what it is."""

    path: str
    kind: Kind
    size_bytes: int
    why: str | None = None
    """Why it is no evidence, or is not read."""
    reader: str | None = None
    """What reads it, where that is not this program."""


@record
class Inventory:
    """All that was found, in the order of the paths and of the names."""

    items: tuple[Item, ...]
    problems: tuple[Problem, ...] = ()

    def of(self, *kinds: Kind) -> tuple[Item, ...]:
        """Return the files of some kinds."""
        return tuple(item for item in self.items if item.kind in kinds)


@record
class Run:
    """The logs of one of several runs that lie in one place."""

    name: str
    """A path: of its folder, of its only log, or what the names of its logs begin with."""
    paths: tuple[str, ...]
    series: str
    """Runs of one series are of one program; empty for logs that are of none of the runs."""
    sweep: bool
    """Its series is a sweep or an array: none of the runs repeats another."""
    began: float | None
    """Seconds since the epoch; None where nothing tells."""
    ended: float


def came_again(run: Run, runs: Sequence[Run]) -> bool:
    """Return whether a later run of its series began after its end: it was started again."""
    return not run.sweep and any(
        other.series == run.series and other.began is not None and other.began > run.ended
        for other in runs
    )


@record
class Reading:
    """One run of a command on some files."""

    kind: str
    words: tuple[str, ...]
    paths: tuple[str, ...]
    run: Run | None = None
    """Of which of several runs it is."""


@record
class Result:
    """The report that came of it, or why there is none."""

    reading: Reading
    document: Mapping[str, Any] | None
    why: str | None


@record
class Used:
    """One file, and what became of it."""

    path: str
    kind: str
    belongs: bool | None
    """False: of another job or an earlier attempt; None: nothing says."""
    used: bool
    why: str | None
    verdict: str | None = None
