"""What joins a line of a kernel's log with the ranks of a job."""

from __future__ import annotations

from enum import StrEnum

from postmortem.facts.kernel_log import KernelEvent
from postmortem.records import record


class By(StrEnum):
    """What joins a line of a kernel's log with a rank; the strongest first."""

    PID = "pid"
    CHILD = "child"
    """The pid of a process that the rank itself says it lost."""
    GPU = "gpu"
    HOST = "host"
    NOTHING = "nothing"


@record
class Tie:
    """One event of a kernel, and the ranks that it is about."""

    event: KernelEvent
    by: By
    ranks: tuple[int, ...] = ()
    why: str = ""
    """What joins them, in words."""
    sure: bool = False
    """Both sides name the host, or there is only one."""
