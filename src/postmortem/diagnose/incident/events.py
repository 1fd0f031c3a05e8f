"""What happened, and to whom: the events that all kinds of evidence tell of."""

from collections.abc import Iterable
from enum import StrEnum

from postmortem.facts.rank_sets import rank_words
from postmortem.facts.signature import Known, Match
from postmortem.records import record
from postmortem.report.model import Confidence, Evidence

_CUT = "…"
_LEAST_SAID = 24
"""Characters of a line that no other process is taken to have written: a type and more."""


class EventType(StrEnum):
    """What kind of thing happened."""

    RAISED = "raised"
    THREAD_DIED = "thread died"
    """Of an exception; its process lived on."""
    CRASHED = "crashed"
    KILLED_FOR_MEMORY = "killed for memory"
    KILLED = "killed"
    EXITED = "exited"
    WATCHDOG = "aborted by a watchdog"
    LOST_PEER = "lost a peer"
    NOT_IN_COLLECTIVE = "not in the collective"
    CALLED_OTHER = "called another collective"
    STUCK = "stuck"
    SLOW = "slow"
    NEVER_JOINED = "never joined"
    COULD_NOT_START = "could not start"
    STORAGE = "storage failed"
    FULL = "file system full"
    """Of no job whose error it does not explain."""
    DAMAGED = "file damaged"
    """Of a checkpoint; of no job that did not read it."""
    REFUSED = "resource refused"
    NETWORK = "network failed"
    DEVICE_LOST = "device lost"
    GPU_MEMORY = "ran out of GPU memory"
    KERNEL_FAILED = "kernel failed on the GPU"
    HOST_FAILED = "host failed"
    NODE_DOWN = "node down"
    """As a scheduler says, some time after; of no job that did not run there."""
    HARDWARE = "hardware got worse"
    """Seen by what it counts; whom it hit is not known."""
    NON_FINITE = "not finite"
    STOPPED = "stopped from outside"
    FAILED = "failed"
    """It ended badly, and the evidence does not say of what kind."""


ENDED_BY_KERNEL = frozenset({EventType.KILLED_FOR_MEMORY, EventType.CRASHED})
EFFECTS = frozenset({EventType.LOST_PEER, EventType.WATCHDOG, EventType.STOPPED})
"""What by its nature something else brought about: never a root."""


@record
class Event(Known):
    """One thing that happened. Ranks and processes are those that it happened to."""

    type: EventType
    what: str
    """One clause, as the report that it comes from says it."""
    source: str
    """Kind of the report that it comes from: ``"core"``, ``"strace"``, ``"logs"``, …"""
    ranks: tuple[int, ...] = ()
    host: str | None = None
    pid: int | None = None
    label: str | None = None
    """Of a writer whose rank is not known."""
    children: tuple[int, ...] = ()
    """Processes that it says it lost: DataLoader workers."""
    role: str | None = None
    """Of a child or a launcher: ``"DataLoader worker"``."""
    child: bool = False
    """Of a child of a rank that no more is known of: what it says does not name the rank."""
    signal: str | None = None
    path: str | None = None
    errnos: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Of tensors or modules."""
    loads: bool = False
    """It was raised by what reads a checkpoint."""
    wrote: tuple[str, ...] = ()
    """The last lines that its process wrote to standard error, cut where the recording cut them."""
    means: str = ""
    """What its error means, where that does not say it."""
    says: str = ""
    """What the process hears of it, where that is known: CUDA's words for an exception of a GPU."""
    breaks: str = ""
    """Of hardware: ``"memory"``, ``"gpu"``, ``"disk"``, ``"network"``, ``"host"``."""
    confidence: Confidence = Confidence.LIKELY
    evidence: tuple[Evidence, ...] = ()
    next_steps: tuple[str, ...] = ()
    cause: str = ""
    belongs: bool | None = None
    """Of this job; None where nothing says so or otherwise."""
    survived: bool = False
    """Its process ended with 0 all the same."""
    order: int = 0
    """Its place among the events of its report: the strongest conclusion first."""
    matches: tuple[Match, ...] = ()
    """Known messages that `what` and `cause` quote."""

    @property
    def actor(self) -> str:
        """Whom it happened to: ``rank 2 on node1``, ``DataLoader worker of rank 1 (pid 7)``."""
        pid = f"pid {self.pid}" if self.pid is not None else ""
        if self.ranks:
            noun = "rank" if len(self.ranks) == 1 else "ranks"
            host = f" on {self.host}" if self.host and len(self.ranks) == 1 else ""
            of = f"{noun} {rank_words(self.ranks)}{host}"
            return f"{self.role} of {of} ({pid})" if self.role and pid else of
        if self.label:
            return self.label
        if pid:
            return f"{self.role} ({pid})" if self.role else pid
        return self.host or "the job"


def wrote(lines: Iterable[str], said: str) -> bool:
    """Return whether one of the lines that a process wrote is what is said, as far as recorded."""
    known = (line.strip().removesuffix(_CUT) for line in lines)
    return any(len(line) >= _LEAST_SAID and said.startswith(line) for line in known)
