"""Failed calls as a diagnosis cites them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from postmortem.facts.syscalls import FailedCalls, Match, Target
from postmortem.report.model import Evidence
from postmortem.rules.names import clip

TEXT_LIMIT = 200
_SHOWN = 3


def where(match: Match) -> str:
    """Return the name of the log and the line of a call."""
    return _line(match.file, match.line)


def _line(file: str, line: int) -> str:
    return f"{file.rpartition('/')[2]}:{line}"


def cite_calls(group: FailedCalls) -> tuple[Evidence, ...]:
    """Return the first failures of a group, and how its file came to be open."""
    rows = [
        Evidence(where(match), clip(f"pid {match.pid} {match.text}", TEXT_LIMIT))
        for match in group.matches[:_SHOWN]
    ]
    if len(group.matches) > _SHOWN:
        rows.append(
            Evidence(where(group.matches[-1]), f"the last of {len(group.matches):,} such failures")
        )
    opened = group.target.opened
    if opened is not None:
        flags = f" {group.target.flags}" if group.target.flags else ""
        rows.append(
            Evidence(
                _line(opened.file, opened.line),
                f"opened by pid {opened.pid} with {opened.syscall}{flags}",
            )
        )
    return tuple(rows)


def named(target: Target, most: int = 60) -> str:
    """Return what to call a target in a title: the end of a long path says more than its start."""
    words = target.words
    return words if len(words) <= most else "…" + words[-(most - 1) :]


def folder_of(target: Target) -> str:
    """Return the folder of a file, quoted for a shell; for a nameless file the path is it."""
    path = target.path or "."
    folder = path if target.nameless else path.rpartition("/")[0] or "/"
    return shlex.quote(folder)


def many(groups: Iterable[FailedCalls]) -> str:
    """Return how many other files failed in the same way, in words."""
    others = sum(1 for _ in groups)
    if others == 0:
        return ""
    return " and 1 other file" if others == 1 else f" and {others} other files"


def in_shared_memory(target: Target) -> bool:
    """Return whether a file lies in /dev/shm."""
    return (target.path or "").startswith("/dev/shm/")
