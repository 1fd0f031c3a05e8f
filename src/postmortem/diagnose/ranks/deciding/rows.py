"""What explains what in the logs of ranks: rows of cause and effect, and what must join them."""

from postmortem import thresholds
from postmortem.diagnose.incident.explains import Explains
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import (
    CouldNotStart,
    Crashed,
    StoppedFromOutside,
    UnnamedProcessEnded,
)
from postmortem.diagnose.ranks.deciding.events import Kind, LogEvent
from postmortem.diagnose.ranks.deciding.rank_state import ends_behind
from postmortem.diagnose.ranks.deciding.startup import CANNOT_START
from postmortem.facts.exits import Stop
from postmortem.facts.rank_logs import LogFailure, Remark
from postmortem.report.model import Confidence

_AT_ONCE = frozenset({"SIGSEGV", "SIGBUS", "SIGKILL", "SIGILL", "SIGFPE"})
"""Signals that leave a process no time to raise."""
_ERRORS = (Kind.RAISED, Kind.SOMEBODY_RAISED)
_ENDS = (Kind.EXITED, Kind.ENDED)
_CRASHES = (Kind.CRASHED, Kind.SOMEBODY_CRASHED)


def same_ranks(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """Certain where all whom the effect happened to are among those of the cause."""
    causes, effects = _ranks(cause), _ranks(effect)
    if not causes & effects:
        return None
    return Confidence.CERTAIN if effects <= causes else Confidence.POSSIBLE


def at_once(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """Who is gone without a word may have broken what others raised; a KeyError it has not."""
    return Confidence.POSSIBLE if _is_at_once(cause) else None


def in_time(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """A signal that its process had time for came when the launcher, or MPI, had seen the error."""
    return None if _is_at_once(effect) else Confidence.LIKELY


def by_a_code(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """An exception ends its process by a code: some rank has one, or several raised."""
    return Confidence.LIKELY if cause.who or cause.times > 1 else None


def without_a_code(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """One exception, no rank that ended by a code, and one that died: who raised went on.

    Who died before that was of an earlier run.
    """
    raised = effect.last
    before = isinstance(raised, LogFailure) and not any(
        s.exit is None or ends_behind(s.exit, raised) for s in cause.who
    )
    return Confidence.LIKELY if by_a_code(effect, cause) is None and not before else None


def lost_child(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """What was raised says only that a process is gone, and the report of one stands above it."""
    crash, error = cause.last, effect.last
    if not isinstance(error, LogFailure) or error.said.match("error-child-died") is None:
        return None
    above = crash is not None and crash.file == error.file and crash.line < error.begin_line
    return Confidence.LIKELY if above else None


def later_lines(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """The line that tells of the stop stands below the error, in the same file."""
    error, stop = cause.last, effect.last
    if error is None or stop is None or stop.file != error.file or stop.line <= error.line:
        return None
    return Confidence.LIKELY


def of_the_end(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """Whatever is raised below the line that tells why the job ends is of its end: a handler's."""
    return Confidence.LIKELY


def for_memory(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """Who only called MPI_Abort ran short of memory, if its scheduler ended the job for that."""
    blame = cause.blame.cause if cause.blame is not None else None
    for_it = isinstance(blame, StoppedFromOutside) and blame.why is Stop.MEMORY
    return Confidence.LIKELY if for_it and all(s.aborted_mpi for s in effect.who) else None


def its_word(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """What is told is the very word of who watched, above which the error was looked for."""
    word, told = cause.last, effect.last
    if word is None or told is None or word.file != told.file:
        return None
    line = told.begin_line if isinstance(told, LogFailure) else told.line
    return Confidence.LIKELY if word.line == line else None


def node_refused(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """What Slurm tells around a prolog that failed, it tells because of it."""
    said, why, told = cause.last, cause.blame and cause.blame.cause, effect.blame
    if not isinstance(said, Remark) or not isinstance(why, CouldNotStart) or told is None:
        return None
    file, _, line = told.evidence[0][0].rpartition(":") if told.evidence else ("", "", "")
    near = line.isdecimal() and abs(int(line) - said.line) <= thresholds.END_LINES
    refused = why.fault is StartupFault.NODE
    return Confidence.LIKELY if refused and near and file == said.file else None


def never_started(cause: LogEvent, effect: LogEvent) -> Confidence | None:
    """Who could not start a program ends what it had started, and tells of that right below.

    A signal of their own, and a limit of memory, they have from somebody else.
    """
    said, blame = cause.last, effect.blame.cause if effect.blame is not None else None
    if not isinstance(said, Remark) or (isinstance(blame, Crashed) and blame.memory is not None):
        return None
    known = said.match(*CANNOT_START)
    nobody = (blame.end,) if isinstance(blame, UnnamedProcessEnded) else ()
    ends = [*nobody, *(state.exit for state in effect.who)]
    explained = all(
        end is not None
        and known is not None
        and (end.launcher, end.file) == (CANNOT_START[known.id], said.file)
        and 0 < end.line - said.line <= thresholds.END_LINES
        and not end.memory
        and end.signal in (None, "SIGKILL", "SIGTERM")
        for end in ends
    )
    silent = all(state.silent for state in effect.who)
    return Confidence.LIKELY if ends and explained and silent else None


def _ranks(event: LogEvent) -> set[int]:
    return {state.rank for state in event.who if state.rank is not None}


def _is_at_once(event: LogEvent) -> bool:
    return any(
        s.crashed and not s.own and s.exit is not None and s.exit.signal in _AT_ONCE
        for s in event.who
    )


ROWS: tuple[Explains[LogEvent], ...] = (
    Explains(
        "kernel-names", (Kind.NAMED_BY_KERNEL,), (*_ERRORS, *_CRASHES, Kind.EXITED), same_ranks
    ),
    Explains("numbers-raised", (Kind.NUMBERS,), _ERRORS, lambda a, b: Confidence.CERTAIN),
    Explains("stop-then-error", (Kind.CANCELLED,), (*_ERRORS, Kind.EXITED), of_the_end),
    Explains("crash-breaks-others", (Kind.CRASHED,), (Kind.RAISED,), at_once),
    Explains("error-ends-others", (Kind.RAISED,), (Kind.CRASHED,), in_time),
    Explains("error-ends-rank", (Kind.SOMEBODY_RAISED,), (Kind.CRASHED, Kind.EXITED), by_a_code),
    Explains("crash-alone", (Kind.CRASHED,), (Kind.SOMEBODY_RAISED,), without_a_code),
    Explains("crash-lost", (Kind.SOMEBODY_CRASHED,), (Kind.SOMEBODY_RAISED,), lost_child),
    Explains("error-then-stop", (Kind.SOMEBODY_RAISED,), (Kind.STOPPED,), later_lines),
    Explains(
        "error-then-word", (Kind.SAID_ABOVE,), (Kind.SOMEBODY_RAISED, Kind.SAID_LAST), its_word
    ),
    Explains("limit-then-abort", (Kind.STOPPED,), (Kind.CRASHED,), for_memory),
    Explains(
        "node-refused",
        (Kind.NOT_STARTED,),
        (Kind.SAID_ABOVE, Kind.SAID_LAST, Kind.STOPPED),
        node_refused,
    ),
    Explains("never-started", (Kind.NOT_STARTED,), (Kind.CRASHED, *_ENDS), never_started),
    Explains("own-end", (*_ERRORS, *_CRASHES), (Kind.EXITED,), same_ranks),
)
"""The rows in the order in which they are tried."""
