"""How a command ended, and what happened to its processes meanwhile."""

import signal
from pathlib import Path

from postmortem.records import record
from postmortem.run.family import Member

CRASH_LEAD_SECONDS = 1.0
"""Within what time an exception may be heard of before the crash that it came of."""


@record
class Event:
    """Something that happened to a process, in the order in which it was heard."""

    time: float
    kind: str
    """``"raised"``, ``"ended"``, ``"signal"`` (sent to the command), ``"timeout"``."""
    pid: int
    what: str
    file: str | None = None
    """Of a raise, what it wrote."""


@record
class Outcome:
    """How a command ended."""

    pid: int
    status: int
    """What `run` exits with: the command's own, 128 + N where signal N ended it."""
    signal: int | None
    began: float
    ended: float
    members: tuple[Member, ...]
    events: tuple[Event, ...]
    shots: tuple[Path, ...]
    stopped_by: int | None = None
    """A signal from outside that was passed on, or came to all of the group."""
    timed_out: bool = False
    core_limit: int = -1
    """What it ran with; 0: no cores, -1: unlimited."""
    raised_core_limit: bool = False
    """Without us it would have left no core."""

    @property
    def failed(self) -> bool:
        """Whether there is something to explain: not what the user has ended by Ctrl-C.

        Whoever is told to end may do so with 0: that time was over is to be explained all the same.
        """
        return (self.status != 0 or self.timed_out) and self.stopped_by != signal.SIGINT
