"""Calls and signals by what failed, and on what."""

from collections.abc import Iterable

from postmortem.diagnose.strace.benign_errors import NEVER_THERE, SHOWN_ERRORS, is_of_device
from postmortem.facts.syscalls import FailedCalls, Match


def grouped(matches: Iterable[Match]) -> tuple[FailedCalls, ...]:
    """Group by what failed and on what, in the order of the first; injected failures last."""
    groups: dict[tuple[object, ...], list[Match]] = {}
    for match in matches:
        name = match.errno or match.syscall
        what = match.target.path or match.target.kind
        groups.setdefault((match.injected, name, what), []).append(match)
    made = [
        FailedCalls(items[0].errno or items[0].syscall, items[0].target, tuple(items))
        for items in groups.values()
    ]
    return tuple(sorted(made, key=lambda group: not group.real))


def is_failure(match: Match) -> bool:
    """Return whether a call failed, or is known to have brought a signal."""
    return match.errno is not None or match.inferred


def is_shown(group: FailedCalls) -> bool:
    """Return whether a summary tells of it."""
    path = group.target.path or ""
    if path.startswith(NEVER_THERE) or is_of_device(group.errno, group.first.syscall, path):
        return False
    return group.errno in SHOWN_ERRORS or group.first.inferred
