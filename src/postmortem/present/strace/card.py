"""What a log of system calls puts on its card: the calls that were asked for, or that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from postmortem.facts.syscalls import FailedCalls
from postmortem.present.strace.view import StraceView
from postmortem.report.card import Highlights

_LONGEST_PROGRAM = 40
_LONGEST_CALL = 120


def strace_highlights(view: StraceView, *, known: bool) -> Highlights:
    """Return the hits of what was asked, else of what failed where no diagnosis is `known`."""
    groups = [group for found in view.finds for group in found.groups]
    if not groups and not known:
        groups = [group for group in view.failed if group.real]
    return Highlights(rows=tuple(_rows(groups)))


def _rows(groups: Sequence[FailedCalls]) -> Iterator[tuple[str, str]]:
    for group in groups:
        match = group.first
        more = f"  ({len(group.matches):,} times)" if len(group.matches) > 1 else ""
        program = match.task.program or ""
        who = f" ({program[:_LONGEST_PROGRAM]})" if program else ""
        yield f"line {match.line:,}", f"pid {match.pid}{who}: {_short(match.text)}{more}"


def _short(call: str) -> str:
    """Return a call with the middle cut out: its end has the result."""
    return call if len(call) <= _LONGEST_CALL else f"{call[:40]}… {call[-70:]}"
