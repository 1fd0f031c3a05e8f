"""Every row of what explains what in logs of ranks: a pair that it joins, and a look-alike."""

import pytest

from postmortem.diagnose.incident.graph import solve
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import CouldNotStart, NothingFailed, StoppedFromOutside
from postmortem.diagnose.ranks.deciding.events import Kind, LogEvent
from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.diagnose.ranks.deciding.rows import ROWS
from postmortem.facts.exits import LogExit, Stop
from postmortem.facts.last_lines import LastLine
from postmortem.facts.rank_logs import ExceptionText, LogFailure, Remark, Writer
from postmortem.facts.signature import Match
from postmortem.records import replace
from postmortem.report.model import Confidence


def failure(line: int, exception: str = "KeyError") -> LogFailure:
    said = ExceptionText(exception, "7")
    return LogFailure("exception", said, 0, "job.log", line, begin_line=line - 2)


def line(number: int) -> LastLine:
    return LastLine("exited with code 1", "job.log", number)


def rank(number: int | None, *, code: int | None = None, signal: str | None = None) -> RankState:
    end = LogExit("job.log", 90, number, code=code, signal=signal)
    return RankState(Writer(str(number), number), number, exit=end if code or signal else None)


def stop(why: Stop) -> LogEvent:
    return LogEvent(Kind.STOPPED, Attribution(StoppedFromOutside("the job was ended", why)))


def hydra(signal: str) -> RankState:
    end = LogExit("job.log", 90, 1, signal=signal, launcher="mpiexec")
    return RankState(Writer("1", 1), 1, exit=end)


K = Kind
NO_PROGRAM = Remark("execvp error", 0, "job.log", 80, None, (Match("hydra-cannot-start", {}),))


def refused(fault: StartupFault) -> LogEvent:
    said = Attribution(CouldNotStart(fault, "it failed"))
    last = Remark("prolog failed", 0, "job.log", 2, None, (Match("slurm-prolog-failed", {}),))
    return LogEvent(Kind.NOT_STARTED, said, last=last)


def said_at(line: int) -> LogEvent:
    return LogEvent(
        Kind.SAID_LAST, Attribution(NothingFailed(), evidence=((f"job.log:{line}", "timed out"),))
    )


ABORTED = RankState(Writer("1", 1), 1, own=(failure(20, "MPI_Abort"),))
SEGV, ABRT = rank(1, signal="SIGSEGV"), rank(1, signal="SIGABRT")
CODE = rank(2, code=1)
GONE = ExceptionText("TerminatedWorkerError", "a worker is gone", (Match("error-child-died", {}),))
LOST = replace(failure(40), said=GONE)
CERTAIN, LIKELY, POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE

JOINED: list[tuple[str, LogEvent, LogEvent, Confidence]] = [
    (
        "kernel-names",
        LogEvent(K.NAMED_BY_KERNEL, None, (SEGV,)),
        LogEvent(K.CRASHED, None, (SEGV,)),
        CERTAIN,
    ),
    (
        "numbers-raised",
        LogEvent(K.NUMBERS, None, (CODE,)),
        LogEvent(K.RAISED, None, (CODE,)),
        CERTAIN,
    ),
    ("stop-then-error", LogEvent(K.CANCELLED, None), LogEvent(K.RAISED, None, (CODE,)), LIKELY),
    (
        "crash-breaks-others",
        LogEvent(K.CRASHED, None, (SEGV,)),
        LogEvent(K.RAISED, None, (CODE,)),
        POSSIBLE,
    ),
    (
        "error-ends-others",
        LogEvent(K.RAISED, None, (CODE,)),
        LogEvent(K.CRASHED, None, (ABRT,)),
        LIKELY,
    ),
    (
        "error-ends-rank",
        LogEvent(K.SOMEBODY_RAISED, None, (CODE,)),
        LogEvent(K.EXITED, None, (CODE,)),
        LIKELY,
    ),
    ("crash-alone", LogEvent(K.CRASHED, None, (SEGV,)), LogEvent(K.SOMEBODY_RAISED, None), LIKELY),
    (
        "crash-lost",
        LogEvent(K.SOMEBODY_CRASHED, None, last=failure(10, "Fatal Python error")),
        LogEvent(K.SOMEBODY_RAISED, None, last=LOST),
        LIKELY,
    ),
    (
        "error-then-stop",
        LogEvent(K.SOMEBODY_RAISED, None, last=failure(10)),
        LogEvent(K.STOPPED, None, last=failure(40)),
        LIKELY,
    ),
    (
        "error-then-word",
        LogEvent(K.SAID_ABOVE, None, last=line(58)),
        LogEvent(K.SOMEBODY_RAISED, None, last=failure(60)),
        LIKELY,
    ),
    ("limit-then-abort", stop(Stop.MEMORY), LogEvent(K.CRASHED, None, (ABORTED,)), LIKELY),
    ("node-refused", refused(StartupFault.NODE), said_at(3), LIKELY),
    (
        "never-started",
        LogEvent(K.NOT_STARTED, None, last=NO_PROGRAM),
        LogEvent(K.CRASHED, None, (hydra("SIGKILL"),)),
        LIKELY,
    ),
    ("own-end", LogEvent(K.CRASHED, None, (SEGV,)), LogEvent(K.EXITED, None, (SEGV,)), CERTAIN),
]
APART: list[tuple[str, LogEvent, LogEvent]] = [
    (
        "kernel-names",
        LogEvent(K.NAMED_BY_KERNEL, None, (SEGV,)),
        LogEvent(K.CRASHED, None, (rank(3, signal="SIGBUS"),)),
    ),
    ("numbers-raised", LogEvent(K.HOST_FAILED, None, (CODE,)), LogEvent(K.RAISED, None, (CODE,))),
    ("stop-then-error", LogEvent(K.STOPPED, None), LogEvent(K.RAISED, None, (CODE,))),
    ("crash-breaks-others", LogEvent(K.CRASHED, None, (ABRT,)), LogEvent(K.RAISED, None, (CODE,))),
    ("error-ends-others", LogEvent(K.RAISED, None, (CODE,)), LogEvent(K.CRASHED, None, (SEGV,))),
    ("error-ends-rank", LogEvent(K.SOMEBODY_RAISED, None), LogEvent(K.EXITED, None, (SEGV,))),
    ("crash-alone", LogEvent(K.CRASHED, None, (SEGV,)), LogEvent(K.SOMEBODY_RAISED, None, (CODE,))),
    (
        "crash-lost",
        LogEvent(K.SOMEBODY_CRASHED, None, last=failure(10, "Fatal Python error")),
        LogEvent(K.SOMEBODY_RAISED, None, last=failure(40)),
    ),
    (
        "error-then-stop",
        LogEvent(K.SOMEBODY_RAISED, None, last=failure(60)),
        LogEvent(K.STOPPED, None, last=failure(40)),
    ),
    (
        "error-then-word",
        LogEvent(K.SAID_ABOVE, None, last=line(58)),
        LogEvent(K.SAID_LAST, None, last=line(90)),
    ),
    ("limit-then-abort", stop(Stop.TIME), LogEvent(K.CRASHED, None, (ABORTED,))),
    ("node-refused", refused(StartupFault.PROGRAM), said_at(3)),
    (
        "never-started",
        LogEvent(K.NOT_STARTED, None, last=NO_PROGRAM),
        LogEvent(K.CRASHED, None, (hydra("SIGSEGV"),)),
    ),
    ("own-end", LogEvent(K.CRASHED, None, (SEGV,)), LogEvent(K.EXITED, None, (CODE,))),
]


def links(cause: LogEvent, effect: LogEvent) -> list[tuple[str, Confidence]]:
    found = solve((cause, effect), ROWS, effects=()).links
    return [(link.row, link.confidence) for link in found if link.cause == 0]


@pytest.mark.parametrize(
    ("row", "cause", "effect", "sure"), JOINED, ids=[case[0] for case in JOINED]
)
def test_a_row_joins(row: str, cause: LogEvent, effect: LogEvent, sure: Confidence) -> None:
    assert links(cause, effect) == [(row, sure)]


@pytest.mark.parametrize(("row", "cause", "effect"), APART, ids=[case[0] for case in APART])
def test_a_row_leaves_its_look_alike(row: str, cause: LogEvent, effect: LogEvent) -> None:
    assert row not in [name for name, _ in links(cause, effect)]


def test_every_row_has_both() -> None:
    rows = [row.id for row in ROWS]
    assert [case[0] for case in JOINED] == rows
    assert [case[0] for case in APART] == rows


def test_what_is_told_far_below_a_prolog_that_failed_is_something_else() -> None:
    assert links(refused(StartupFault.NODE), said_at(3_000)) == []
