"""What a log of system calls puts on its card: the calls that were asked for, or that failed."""

from collections.abc import Iterator, Sequence

from postmortem.diagnose.strace.calls import who
from postmortem.facts.syscalls import FailedCalls
from postmortem.present.card import DATA
from postmortem.present.headline.by_cause import not_written
from postmortem.present.strace.view import StraceView
from postmortem.report.card import Highlights
from postmortem.report.model import Diagnosis

_LONGEST_PROGRAM = 40
_LONGEST_CALL = 120


def strace_highlights(view: StraceView, best: Diagnosis | None) -> Highlights:
    """Return the hits of what was asked, else of what failed where no diagnosis says more."""
    groups = [group for found in view.finds for group in found.groups]
    if not groups and best is None:
        groups = [group for group in view.failed if group.real]
    told = not_written(best) if best is not None and not view.finds else None
    return Highlights(rows=tuple(_rows(groups)), headline=told)


def _rows(groups: Sequence[FailedCalls]) -> Iterator[tuple[str, str]]:
    for group in groups:
        match = group.first
        more = f"  ({len(group.matches):,} times)" if len(group.matches) > 1 else ""
        program = match.task.program or ""
        running = f" ({program[:_LONGEST_PROGRAM]})" if program else ""
        yield f"line {match.line:,}", f"{who(match.pid)}{running}: {_short(match.text)}{more}"


def _short(call: str) -> str:
    """Return a call without most of what it read or wrote: its end has the result."""
    call = DATA.sub(r'"\1…"', call)
    return call if len(call) <= _LONGEST_CALL else f"{call[:40]}… {call[-70:]}"
