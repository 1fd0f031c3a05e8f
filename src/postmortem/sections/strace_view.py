"""A system-call log as its report shows it."""

from __future__ import annotations

from postmortem.facts.syscalls import ErrorCount, FailedCalls, Match, SystemCalls
from postmortem.records import record


@record
class Found:
    """One ``--find`` and its answer."""

    query: str
    matches: tuple[Match, ...]
    groups: tuple[FailedCalls, ...]


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
