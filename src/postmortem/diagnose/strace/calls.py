"""Failed calls as a diagnosis cites them."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

from postmortem.diagnose.names import clip
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Match, Target
from postmortem.knowledge.lookup import lines_of, load_table
from postmortem.report.model import Evidence, Subject
from postmortem.text import counted, shell_word

TEXT_LIMIT = 200
_SHOWN = 3


class OfLog(Protocol):
    """A fact that stands on a line of a log."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...


def where(fact: OfLog) -> str:
    """Return the name of the log and the line of a call, an end or whatever stands there."""
    return place(fact.file, fact.line)


def place(file: str, line: int) -> str:
    """Return the name of a log and a line of it."""
    return f"{file.rpartition('/')[2]}:{line}"


def cite(match: Match) -> Evidence:
    """Return a call as the log has it."""
    return Evidence(where(match), clip(f"{who(match.pid)} {match.text}", TEXT_LIMIT))


def subject(group: FailedCalls) -> Subject:
    """Return whom and what failed calls are about."""
    last = group.matches[-1]
    return Subject(pid=last.pid or None, path=group.target.path, errno=last.errno)


def cite_calls(group: FailedCalls) -> tuple[Evidence, ...]:
    """Return the first failures of a group, and how its file came to be open."""
    rows = [cite(match) for match in group.matches[:_SHOWN]]
    if len(group.matches) > _SHOWN:
        rows.append(
            Evidence(where(group.matches[-1]), f"the last of {len(group.matches):,} such failures")
        )
    opened = group.target.opened
    if opened is not None:
        flags = f" {group.target.flags}" if group.target.flags else ""
        rows.append(
            Evidence(where(opened), f"opened by {who(opened.pid)} with {opened.syscall}{flags}")
        )
    return tuple(rows)


def named(target: Target, most: int = 60) -> str:
    """Return what to call a target in a title."""
    return shortened(target.words, most)


def folder_of(target: Target) -> str:
    """Return the folder of a file, quoted for a shell; for a nameless file the path is it."""
    path = target.path or "."
    folder = path if target.nameless else path.rpartition("/")[0] or "/"
    return shell_word(folder)


def many(groups: Iterable[FailedCalls]) -> str:
    """Return how many other files failed in the same way, in words."""
    others = sum(1 for _ in groups)
    return f" and {counted(others, 'other file')}" if others else ""


def in_shared_memory(target: Target) -> bool:
    """Return whether a file lies in /dev/shm."""
    return (target.path or "").startswith("/dev/shm/")


def times(logs: Logs, group: FailedCalls) -> str:
    """Return how many calls failed so, in words: ``2 write calls``."""
    path = group.target.path
    failed = sum(
        row.count - row.injected
        for syscall in group.syscalls
        for row in logs.errors(group.errno, syscall)
        if row.path == path
    )
    count = max(len(group.matches), failed)
    return counted(count, f"{'/'.join(group.syscalls[:3])} call")


def shortened(words: str, most: int) -> str:
    """Return the end of long words: of a path it says more than the start."""
    return words if len(words) <= most else "…" + words[-(most - 1) :]


def quoted(target: Target) -> str:
    """Return a target's path as a shell takes it."""
    return shell_word(target.path or "FILE")


@lru_cache(maxsize=1)
def _tables() -> dict[tuple[str, str], dict[str, str]]:
    rows = load_table("kernel_tables.toml")["table"]
    told = ((row["errno"], *line.split(": ")) for row in rows for line in lines_of(row["lines"]))
    return {
        (call, errno): {"full": full, "setting": setting}
        for errno, calls, full, setting in told
        for call in calls.split()
    }


def kernel_table(group: FailedCalls) -> dict[str, str] | None:
    """Return which table of the kernel is full and its setting, where an errno means that."""
    return _tables().get((group.syscalls[0], group.errno))


# They answer a question by their status.
ANSWERING = frozenset({
    "grep", "egrep", "fgrep", "test", "[", "diff", "cmp", "which", "pgrep", "expr", "false",
    "getent", "lsmod", "mountpoint", "systemctl", "type",
})  # fmt: skip
"""Programs that exit with 1 where nothing failed."""


def who(pid: int) -> str:
    """Return ``"pid 7"``; a log of one task alone does not tell its number."""
    return f"pid {pid}" if pid else "the process"
