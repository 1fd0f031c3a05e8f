"""What joins a line of a kernel's log with the ranks of a job."""

from enum import StrEnum

from postmortem.facts.kernel_log import KernelEvent
from postmortem.records import record


class MatchKey(StrEnum):
    """What joins a line of a kernel's log with a rank; the strongest first."""

    PID = "pid"
    CHILD = "child"
    """The pid of a process that the rank itself says it lost."""
    GPU = "gpu"
    HOST = "host"
    NOTHING = "nothing"


@record
class KernelMatch:
    """One event of a kernel, and the ranks that it is about."""

    event: KernelEvent
    by: MatchKey
    ranks: tuple[int, ...] = ()
    why: str = ""
    """What joins them, in words."""
    sure: bool = False
    """Both sides name the host, or there is only one."""
    outlived: bool = False
    """All logs went on behind it, by their clocks."""
