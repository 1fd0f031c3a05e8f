"""Who of many ranks failed first, and how that is known."""

from __future__ import annotations

from enum import StrEnum

from postmortem.diagnose.jam.jam import Jam
from postmortem.diagnose.numerics.first_bad import FirstBad
from postmortem.facts.kernel_log import KernelEvent
from postmortem.facts.rank_logs import LogExit, LogFailure
from postmortem.records import record

IF_ONE_GROUP = ", if all are of one group"
"""Ends the detail of a blame that holds only then."""


class How(StrEnum):
    """What singles out who failed first, or why nobody is singled out."""

    OWN_EXCEPTION = "own exception"
    EVERY_RANK = "every rank"
    CRASH = "crash"
    """A signal, or a message that announces one."""
    SILENT_EXIT = "silent exit"
    """An exit code other than 0, and no error."""
    THREAD = "thread"
    """A thread of it died; the process lived on and was missed."""
    COLLECTIVE = "collective"
    """It called another collective than most."""
    NUMBERS = "numbers"
    """The numerics monitor saw its numbers go bad first."""
    RECORDED = "recorded"
    """The flight recorders show that it called something else, or not what the others wait in."""
    STACK = "stack"
    """It stands elsewhere, while all others wait in a collective."""
    KERNEL = "kernel log"
    """The kernel's log names it, its GPU, or its host."""
    NODE = "node"
    """The scheduler says that a host failed."""
    NAMED = "named"
    """A monitored barrier or a watchdog names it."""
    CALL_SITE = "call site"
    """It waits elsewhere than most."""
    SILENT = "silent"
    """It has no error while all others wait for a peer."""
    LEFT_EARLY = "left early"
    """It ended with 0 while others still needed it."""
    MISSING = "missing"
    """It never joined."""
    STARTUP = "startup"
    """No rank: what the job needs to start was not there."""
    STOPPED = "stopped"
    """From outside: a signal, a scheduler, Ctrl-C."""
    UNDECIDED = "undecided"
    NOTHING = "nothing"


class StartupFault(StrEnum):
    """What a job lacked when it started."""

    PORT_IN_USE = "port in use"
    INTERFACE = "interface"
    NAME = "name"
    UNREACHABLE = "unreachable"
    MISSING = "missing"
    RENDEZVOUS = "rendezvous"
    TOO_MANY = "too many"
    """More processes counted themselves in a store than the job has."""


@record
class Party:
    """A rank, or a process whose rank is not known."""

    label: str
    rank: int | None
    host: str | None
    why: str
    failure: LogFailure | None = None
    exit: LogExit | None = None

    @property
    def words(self) -> str:
        """``rank 2 on node1``, or the label where the rank is not known."""
        host = f" on {self.host}" if self.host else ""
        return f"{self.label}" if self.rank is None else f"rank {self.rank}{host}"


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


@record
class Blame:
    """What was decided."""

    how: How
    first: tuple[Party, ...] = ()
    """Who failed first; several when they failed alike. The one with evidence first."""
    sure: bool = False
    """Nothing else in the evidence speaks against it."""
    candidates: tuple[Party, ...] = ()
    """Filled where it cannot be decided."""
    victims: tuple[Party, ...] = ()
    fault: StartupFault | None = None
    evidence: tuple[tuple[str, str], ...] = ()
    """(where, what)."""
    detail: str = ""
    """What of the fault a sentence needs: a port, a name, what most others called."""
    whole_host: str | None = None
    """All ranks of this host failed alike, and none of another host."""
    blamed: tuple[int, ...] = ()
    """Ranks that torchrun called the root cause."""
    cause: Tie | None = None
    """Where the kernel's log decides, its line."""
    numbers: FirstBad | None = None
    """What the numerics monitor saw to be bad first, where that decides."""
    jam: Jam | None = None
    """Who waits for whom by the flight recorders, where anybody does."""
    ties: tuple[Tie, ...] = ()
    """All faults in kernel logs, with the ranks that they are about."""


@record
class Attempts:
    """What was decided of each start of a job, in their order; of most jobs there is one."""

    blames: tuple[Blame, ...]
    told: int
    """Which of them the report tells of."""
    alike: int = 1
    """How many of them ended as that one did, itself included."""

    @property
    def blame(self) -> Blame:
        """Return what was decided of the attempt that the report tells of."""
        return self.blames[self.told]

    @property
    def recovered(self) -> bool:
        """Return whether an attempt failed and the last one did not."""
        failed = [blame.how is not How.NOTHING for blame in self.blames]
        return any(failed) and not failed[-1]
