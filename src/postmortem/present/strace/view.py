"""A system-call log as its report shows it."""

from __future__ import annotations

from postmortem.facts.source import Problem
from postmortem.facts.syscalls import (
    ErrorCount,
    FailedCalls,
    LastFailure,
    Match,
    SystemCalls,
    Task,
)
from postmortem.records import record


@record
class Found:
    """One ``--find`` and its answer."""

    query: str
    matches: tuple[Match, ...]
    groups: tuple[FailedCalls, ...]
    slow: bool = False
    """It asks how long calls took."""


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
