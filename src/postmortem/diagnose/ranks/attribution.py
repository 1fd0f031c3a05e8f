"""Who of many ranks failed first, and how that is known."""

from postmortem.diagnose.jam.jam import Jam
from postmortem.diagnose.ranks.cause_kinds import CauseKind, StartupFault
from postmortem.diagnose.ranks.causes import Cause, CouldNotStart, NeverJoined, SeenByKernel
from postmortem.diagnose.ranks.kernel_matches import KernelMatch
from postmortem.facts.exits import LogExit
from postmortem.facts.rank_logs import LogFailure
from postmortem.facts.signature import Match
from postmortem.records import record


@record
class Suspect:
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


@record
class Attribution:
    """What was decided."""

    cause: Cause
    first: tuple[Suspect, ...] = ()
    """Who failed first; several when they failed alike. The one with evidence first."""
    sure: bool = False
    """Nothing else in the evidence speaks against it."""
    candidates: tuple[Suspect, ...] = ()
    """Filled where it cannot be decided."""
    victims: tuple[Suspect, ...] = ()
    also: tuple[Suspect, ...] = ()
    """Who failed by itself too, with an error that the end of `first` does not explain."""
    then: str = ""
    """What ended the work that went on after it: the line that says who stopped the job."""
    evidence: tuple[tuple[str, str], ...] = ()
    """(where, what)."""
    warned: Match | None = None
    """What a warning beside the error tells of its cause."""
    whole_host: str | None = None
    """All ranks of this host failed alike, and none of another host."""
    blamed: tuple[int, ...] = ()
    """Ranks that torchrun called the root cause."""
    jam: Jam | None = None
    """Who waits for whom by the flight recorders, where anybody does."""
    ties: tuple[KernelMatch, ...] = ()
    """All faults in kernel logs, with the ranks that they are about."""

    @property
    def how(self) -> CauseKind:
        """What singles out who failed first; NOTHING where nothing failed."""
        return self.cause.how

    @property
    def fault(self) -> StartupFault | None:
        """What the job lacked when it started, if that is why."""
        return self.cause.fault if isinstance(self.cause, CouldNotStart | NeverJoined) else None

    @property
    def tie(self) -> KernelMatch | None:
        """The line of a kernel's log, where that decides."""
        return self.cause.tie if isinstance(self.cause, SeenByKernel) else None

    @property
    def tie_said(self) -> str:
        """The error of the rank that the deciding line of a kernel's log is about; may be empty."""
        return self.cause.said if isinstance(self.cause, SeenByKernel) else ""


@record
class Attempts:
    """What was decided of each start of a job, in their order; of most jobs there is one."""

    blames: tuple[Attribution, ...]
    told: int
    """Which of them the report tells of."""
    alike: int = 1
    """How many of them ended as that one did, itself included."""

    @property
    def blame(self) -> Attribution:
        """Return what was decided of the attempt that the report tells of."""
        return self.blames[self.told]

    @property
    def recovered(self) -> bool:
        """Return whether an attempt failed and the last one did not."""
        failed = [blame.how is not CauseKind.NOTHING for blame in self.blames]
        return any(failed) and not failed[-1]
