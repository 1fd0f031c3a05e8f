"""A system-call log as its report shows it."""

from collections.abc import Iterable

from postmortem.diagnose.strace.grouping import grouped
from postmortem.facts.call_query import Query
from postmortem.facts.source import Problem
from postmortem.facts.syscall_totals import ErrorCount
from postmortem.facts.syscalls import FailedCalls, LastFailure, Match, SystemCalls, Task
from postmortem.records import record


@record
class Found:
    """One ``--find`` and its answer."""

    query: str
    matches: tuple[Match, ...]
    groups: tuple[FailedCalls, ...]
    slow: bool = False
    """It asks how long calls took."""


def found_by(query: Query, matches: Iterable[Match]) -> Found:
    """Return the answer to a query."""
    held = tuple(match for match in matches if query.holds(match))
    groups = grouped(held)
    if query.slower is not None:  # the longest first
        groups = tuple(sorted(groups, key=lambda g: -max(m.seconds or 0.0 for m in g.matches)))
    return Found(query.text, held, groups, slow=query.slower is not None)


@record
class StraceView:
    """All that the sections need."""

    logs: tuple[SystemCalls, ...]
    finds: tuple[Found, ...]
    summary: bool
    """False: only `finds` was asked, and errors, files and calls were not counted."""
    failed: tuple[FailedCalls, ...] = ()
    real_errors: tuple[ErrorCount, ...] = ()
    missing_libraries: tuple[tuple[str, tuple[str, ...]], ...] = ()
    last_failures: tuple[tuple[Task, tuple[LastFailure, ...]], ...] = ()
    """For processes that ended badly: what failed last, without what is harmless."""
    remarks: tuple[Problem, ...] = ()
    """What the options of the recordings hide, beside what is a problem."""
