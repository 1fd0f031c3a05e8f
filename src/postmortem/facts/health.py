"""Counters and states of a host and its GPUs that tell of failing hardware, at one moment."""

from __future__ import annotations

from postmortem.facts.source import Problem
from postmortem.records import record

FILE_SYSTEM = "file system "
"""With what the subject of a file system begins, before where it is mounted."""
NODE = "node "
"""With what the subject of a node begins that a scheduler tells of."""


@record
class Reading:
    """One number: 0, or a small one, where all is well."""

    subject: str
    """``"GPU 0000:3b:00.0"``, ``"disk sda"``, ``"memory controller mc0"``."""
    name: str
    """Of knowledge/health.toml: ``"ecc_uncorrected"``."""
    value: int
    command: str
    """Shows the same to people."""
    detail: str = ""
    """What the number does not say: the last line of the kernel's log."""


@record
class Health:
    """A snapshot of a machine."""

    host: str
    boot: str | None
    """The kernel's id of this boot: counters begin anew with each."""
    taken: float
    """Seconds since 1970."""
    readings: tuple[Reading, ...] = ()
    problems: tuple[Problem, ...] = ()
    """What could not be read: of that nothing is said."""
