"""Who holds up a job that hangs, as its flight recorders show it; each cause a type of its own."""

from __future__ import annotations

from enum import StrEnum

from postmortem.facts.confidence import Confidence
from postmortem.facts.flight_recorder import Collective
from postmortem.records import record


class Sign(StrEnum):
    """Whether anything shows that the job stood still when its dumps were written."""

    SEEN = "seen"
    """A time-out in a log, or a dump written long after its newest call."""
    AGAINST = "against"
    """All dumps were written while calls were still being made."""
    UNKNOWN = "unknown"


class Differs(StrEnum):
    """In what a call differs from those of the others."""

    OPERATION = "operation"
    DTYPE = "dtype"
    SIZES = "sizes"


@record
class Operation:
    """One collective, or one pair of send and receive, of a group."""

    group: str
    group_words: str
    number: int
    members: int
    """How many ranks it needs."""
    call: Collective | None
    """What most of those inside called."""
    since: float | None = None
    """Seconds since 1970: when the first of them called it."""


@record
class StoppedNoting:
    """Calls that others have finished are open at this rank: its device, or who watches it."""

    calls: int
    finished_by: int
    """A rank that has finished them."""


@record
class CalledOther:
    """It called something else under the number that the others wait in."""

    differs: Differs
    call: Collective
    others: Collective


@record
class NeverCame:
    """It never called what others wait in, and waits for nobody itself."""

    last: tuple[int, Collective] | None
    """Number and shape of its last call, where its dump has one."""
    mate: int | None = None
    """A rank of the same part of the program that had called as much, and went on: what this one
    waits in does not hold it."""


@record
class OutOfOrder:
    """It waits in a call that its mates had not made when they called what it never came to."""

    number: int
    call: Collective
    mate: int


@record
class CameLate:
    """It called long after the others, and waited for nobody before."""

    seconds: float


@record
class NotBegun:
    """It has called like all others, whose devices have begun; its own has not."""


@record
class NotFinished:
    """Most have finished what is open here."""

    finished: int


@record
class NoDump:
    """Nothing is seen of it, and all others are there."""

    together: tuple[int, ...] = ()
    """All ranks of a group of which nothing is seen, where they are missing together."""
    may_wait_for: int | None = None
    """A rank that could be what it waits for."""


@record
class InRing:
    """It waits for ranks that wait for it."""


@record
class Disagrees:
    """It called something else than others of its group, and no side is the larger one."""

    call: Collective


@record
class Inside:
    """All have called the same, and it does not end."""


Cause = (
    StoppedNoting
    | CalledOther
    | NeverCame
    | OutOfOrder
    | CameLate
    | NotBegun
    | NotFinished
    | NoDump
    | InRing
    | Disagrees
    | Inside
)


@record
class Culprit:
    """A rank that holds up others, or may."""

    rank: int
    cause: Cause
    operation: Operation | None
    sure: Confidence
    holds_up: int = 0
    """Ranks that wait in an operation that lacks it."""


@record
class Unended:
    """An operation that all have called, and that does not end."""

    operation: Operation
    ranks: tuple[int, ...]


@record
class Jam:
    """What the dumps of all ranks say together."""

    culprits: tuple[Culprit, ...]
    """In the order of their ranks."""
    candidates: tuple[Culprit, ...]
    unended: tuple[Unended, ...]
    waiting: int
    """Ranks that wait for others."""
    explained: int
    """Those of them whose waiting leads to a culprit, a candidate or an unended operation."""
    held_up: int
    """Those that are no culprits themselves."""
    seen: int
    """Ranks whose dumps there are."""
    unseen: int
    """Ranks that dumps name, and of which there is none."""
    sign: Sign
    sign_words: str = ""
    """What shows it: ``"the dump of rank 3 was written 600 s after its newest call"``."""
    left_out: int = 0
    """Operations that were not looked at: there were too many."""

    @property
    def disagree(self) -> bool:
        """Return whether ranks disagree on a call, and no side is the larger one."""
        return any(isinstance(one.cause, Disagrees) for one in self.candidates)
