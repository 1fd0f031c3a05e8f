"""Why a job failed, as types: what each kind of conclusion knows is in its fields."""

from typing import TypeAlias

from postmortem.diagnose.numerics.first_bad import FirstBad
from postmortem.diagnose.ranks.cause_kinds import CauseKind, Doubt, NamedBy, StartupFault
from postmortem.diagnose.ranks.kernel_matches import KernelMatch
from postmortem.facts.batch_jobs import BatchJob
from postmortem.facts.exits import LogExit, Stop
from postmortem.facts.kernel_log import KernelEvent
from postmortem.facts.rank_logs import LogFailure
from postmortem.records import record


@record
class Raised:
    """It has an exception of its own."""

    how = CauseKind.OWN_EXCEPTION
    child: LogFailure | None = None
    """How a program crashed that it had started, or a thread of it died, before it raised."""


@record
class EveryRankRaised:
    """All ranks that tell how they ended raised the same: none of them was first."""

    how = CauseKind.EVERY_RANK
    world: int = 0
    """Ranks that there are at least."""


@record
class ChildKilled:
    """A process that it had started is gone, and a kill for memory is told of."""

    how = CauseKind.CRASH
    said: str


@record
class HostMemory:
    """The kernel killed that very process because its host ran out of memory."""


@record
class MemoryLimit:
    """The scheduler says that the memory which it gave was used up."""


@record
class MaybeMemory:
    """The kernel of its host killed a process of another number, which may be the same one."""

    kill: KernelEvent


@record
class SaidMemory:
    """The scheduler says of the job that a process was killed for memory, and not which."""

    said: str
    where: str


MemoryKill: TypeAlias = HostMemory | MemoryLimit | MaybeMemory | SaidMemory


@record
class Crashed:
    """A signal ended it, or it said why it aborts."""

    how = CauseKind.CRASH
    memory: MemoryKill | None = None


@record
class ExitedSilently:
    """An exit code other than 0, and no error."""

    how = CauseKind.SILENT_EXIT
    heard: bool = False
    """Lines of its own are there, and none of them is an error."""
    said: str = ""
    """The last line of the one, where it may be why: of few lines, or an error."""
    error: bool = False
    """That line reads like an error."""
    known: str = ""
    """See `LastLines.known`."""


@record
class ThreadDied:
    """A thread of it died; the process lived on and was missed."""

    how = CauseKind.THREAD


@record
class CalledOther:
    """It called another collective than most."""

    how = CauseKind.COLLECTIVE
    most: str
    """What most called: ``"ALLREDUCE of shape [4], Float"``."""


@record
class NumbersWentBad:
    """Its numbers went bad first, as the numerics monitor saw or its log prints."""

    how = CauseKind.NUMBERS
    first_bad: FirstBad | None
    """What the monitor saw; None where only logs tell."""


@record
class HoldsUp:
    """Flight recorders show that it holds up the others; `Attribution.jam` has how."""

    how = CauseKind.RECORDED


@record
class StandsElsewhere:
    """It stands elsewhere, while all others wait in a collective."""

    how = CauseKind.STACK
    most: str
    """Where most of them stand."""


@record
class SeenByKernel:
    """The kernel's log names it, its GPU, or its host."""

    how = CauseKind.KERNEL
    tie: KernelMatch
    said: str = ""
    """What the rank says itself; empty where it says nothing."""


@record
class HostFailed:
    """The scheduler says that a host failed."""

    how = CauseKind.NODE
    host: str
    by: str = "Slurm"
    """Who says so."""


@record
class NamedMissing:
    """A monitored barrier, a watchdog or a coordinator names it."""

    how = CauseKind.NAMED
    by: NamedBy


@record
class WaitsElsewhere:
    """It waits in another call than most."""

    how = CauseKind.CALL_SITE
    most: str
    """What most wait in."""
    if_one_group: bool = False
    """Nothing says of which groups the calls are: true only if all are of one."""


@record
class SilentAlone:
    """It alone has no error while all others wait for a peer, or is seen to stand still."""

    how = CauseKind.SILENT
    halted: bool = False
    """A process that is none of the others' was stopped by a signal, as ps or /proc shows it."""
    waited_for: bool = True
    """Others say that they wait for a peer; else all end without a word."""
    at: str = ""
    """Where its stack shows it meanwhile."""
    here: bool = False
    """Of the ranks that are here; of others nothing is known."""


@record
class LeftEarly:
    """It ended with 0 while others still needed it."""

    how = CauseKind.LEFT_EARLY
    numbered: bool = True
    """Which rank it was is known."""
    told: bool = False
    """It says itself that it was done; of its code nothing is known."""


@record
class CouldNotStart:
    """What the job needs to start was not there."""

    how = CauseKind.STARTUP
    fault: StartupFault
    said: str
    """The message that tells so."""
    known: tuple[str, ...] = ()
    """Ids of all known messages of the failed start."""
    port: str | None = None
    """Of the store, where a message names it."""
    host: str | None = None
    interface: str | None = None
    program: str | None = None
    why: str | None = None
    """Why that program was not started."""


@record
class NeverJoined:
    """Some ranks never joined, while all others say that they came."""

    how = CauseKind.MISSING
    said: str
    """The message that tells so."""
    fault = StartupFault.MISSING


@record
class StoppedFromOutside:
    """A signal, a scheduler or Ctrl-C ended it."""

    how = CauseKind.STOPPED
    said: str
    """The line that tells so."""
    why: Stop | None = None
    scheduled: bool = False
    """A scheduler says so."""
    then: str = ""
    """What was raised because of it, and by whom; a scheduler's word on kills for memory."""


@record
class JobsFailed:
    """Jobs of a batch system are held, were removed, or ended badly."""

    how = CauseKind.JOBS
    jobs: tuple[BatchJob, ...]
    """The one that tells the most first."""


@record
class Undecided:
    """Nobody is singled out."""

    how = CauseKind.UNDECIDED
    doubt: Doubt
    more: int = 0
    """Of so many ranks the same is true, beside the candidates."""


@record
class UnnamedProcessEnded:
    """A launcher says that a process ended badly, and not which rank that was."""

    how = CauseKind.UNDECIDED
    end: LogExit


@record
class ProcessEnded:
    """A shell says which signal ended the program: the one process that there is."""

    how = CauseKind.CRASH
    end: LogExit
    memory: str = ""
    """The line of a scheduler or a kernel that tells of a kill for memory; may be empty."""


@record
class SaidLast:
    """Its last lines read like an error."""

    how = CauseKind.LAST_WORDS
    said: str
    plain: bool
    """They have the form of an error that ends something."""
    behind: bool = False
    """Other lines stand behind them, none of which tells of work."""
    form: str = ""
    """See `LastLines.form`."""
    above: str = ""
    """The line right above them, if that may say why."""
    word: str = ""
    """What somebody who watched said below: that it failed, and not why."""
    ended: str = ""
    """How the program ended, as `postmortem run` saw it."""
    first: bool = False
    """Nothing stands above them."""
    known: str = ""
    """See `LastLines.known`."""
    memory: str = ""
    """Of a worker that is gone, the line that tells of a kill for memory."""


@record
class NeverANumber:
    """Its loss, or the norm of its gradients, is no number, to the end of the log."""

    how = CauseKind.LAST_WORDS
    quantity: str
    """What it is called in the log."""
    value: str
    said: str
    line: int
    earlier: bool
    step: str = ""


@record
class OtherText:
    """It is no log."""

    how = CauseKind.LAST_WORDS
    kind: str
    frame: str = ""
    """Of a stack the innermost frame that does not only end the process."""


@record
class NothingFailed:
    """No failure is known."""

    how = CauseKind.NOTHING


Cause: TypeAlias = (
    Raised
    | EveryRankRaised
    | ChildKilled
    | Crashed
    | ExitedSilently
    | ThreadDied
    | CalledOther
    | NumbersWentBad
    | HoldsUp
    | StandsElsewhere
    | SeenByKernel
    | HostFailed
    | NamedMissing
    | WaitsElsewhere
    | SilentAlone
    | LeftEarly
    | CouldNotStart
    | NeverJoined
    | StoppedFromOutside
    | JobsFailed
    | Undecided
    | UnnamedProcessEnded
    | ProcessEnded
    | SaidLast
    | NeverANumber
    | OtherText
    | NothingFailed
)
