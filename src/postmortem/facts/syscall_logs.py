"""What logs say together: how processes fared after a failure, and who waits at the end."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from itertools import chain

from postmortem import thresholds
from postmortem.facts.syscall_totals import ErrorCount
from postmortem.facts.syscalls import Ending, Match, SystemCalls, Task
from postmortem.records import record


class Fate(StrEnum):
    """How a process fared after one of its calls failed."""

    SURVIVED = "survived"
    """It, and whoever started it, exited with 0."""
    FAILED = "failed"
    """It, or whoever started it, ended badly soon after."""
    FAILED_LATER = "failed later"
    """It ended badly, but much later."""
    UNKNOWN = "unknown"
    """The log ends before the process."""


@record
class Logs:
    """All logs that were read, and the calls that were asked for whatever they returned."""

    logs: tuple[SystemCalls, ...]

    def tasks(self) -> Iterator[Task]:
        """Yield every task of every log."""
        for log in self.logs:
            yield from log.tasks

    def asked(self, *syscalls: str) -> tuple[Match, ...]:
        """Return the calls of these names that were recorded one by one, failed or not."""
        return tuple(m for log in self.logs for m in log.matches if m.syscall in syscalls)

    def errors(self, errno: str, *syscalls: str) -> tuple[ErrorCount, ...]:
        """Return the counted failures with one errno, of these calls or of any."""
        return tuple(
            row
            for log in self.logs
            for row in log.errors
            if row.errno == errno and row.count > row.injected
            if not syscalls or row.syscall in syscalls
        )

    @cached_property
    def _of_pid(self) -> Mapping[int, list[Task]]:
        tasks: dict[int, list[Task]] = {}
        for task in self.tasks():
            tasks.setdefault(task.pid, []).append(task)
        return tasks

    @cached_property
    def _of_parent(self) -> Mapping[int, list[Task]]:
        tasks: dict[int, list[Task]] = {}
        for task in self.tasks():
            if task.ppid:
                tasks.setdefault(task.ppid, []).append(task)
        return tasks

    def children(self, pid: int) -> list[Task]:
        """Return the tasks that a process started."""
        return self._of_parent.get(pid, [])

    def task(self, pid: int, after: int = 0) -> Task | None:
        """Return the task with a pid that ended after a line; of pids that came back, the first."""
        found = self._of_pid.get(pid, [])
        ended = (t for t in found if t.ending is not None and t.ending.line >= after)
        unended = (t for t in found if t.ending is None)
        return next(chain(ended, unended, found), None)

    def first(self, pid: int) -> Task | None:
        """Return the first task with a pid."""
        return next(iter(self._of_pid.get(pid, [])), None)

    def ending(self, match: Match) -> Ending | None:
        """Return how the process that made a call ended."""
        return self.ending_of(match.task.thread_of or match.pid, match.line)

    def ending_of(self, pid: int, line: int) -> Ending | None:
        """Return how the process of a task ended that was alive at a line."""
        task = self.task(pid, line)
        if task is not None and task.ending is None and task.thread_of:
            task = self.task(task.thread_of, line)
        return None if task is None else task.ending

    def fate(self, match: Match) -> Fate:
        """Return how the process that made a call fared."""
        return self.fate_of(match.task.thread_of or match.pid, match.line, match.task.ppid)

    def fate_of(self, pid: int, line: int, ppid: int | None = None) -> Fate:
        """Return how the process with a pid fared after a line, and those that started it."""
        seen: set[int] = set()
        known = False
        following: int | None = pid
        while following is not None and following not in seen:
            seen.add(following)
            task = self.task(following, line)
            ending = None if task is None else task.ending
            if ending is not None:
                known = True
                if ending.signal is not None or ending.code:
                    near = 0 <= ending.line - line <= thresholds.FATE_LINES
                    return Fate.FAILED if near else Fate.FAILED_LATER
            elif following == pid:
                return Fate.UNKNOWN
            following = ppid if task is None else (task.ppid or task.thread_of or None)
        return Fate.SURVIVED if known else Fate.UNKNOWN

    def stuck(self) -> tuple[Task, ...]:
        """Return tasks that were in a call when the log ended, or a signal ended them."""
        return tuple(
            task
            for task in self.tasks()
            if task.blocked is not None and (task.ending is None or task.ending.signal is not None)
        )

    def processes_alive(self) -> tuple[tuple[int, tuple[Task, ...]], ...]:
        """Return the processes that had not ended by themselves, each with its tasks then.

        A signal from outside ended some: their tasks are those of that moment. Tasks that are in
        no call have None as `blocked`.
        """
        groups: dict[int, list[Task]] = {}
        for task in self.tasks():
            if task.ending is None or task.ending.signal in FROM_OUTSIDE | {"SIGABRT"}:
                groups.setdefault(task.thread_of or task.pid, []).append(task)
        return tuple((pid, tuple(tasks)) for pid, tasks in groups.items())

    def was_forked(self, pid: int) -> bool:
        """Return whether a process came from a fork of another one of the log and ran no exec."""
        task = self.task(pid)
        parent = None if task is None or not task.ppid else self.task(task.ppid)
        return parent is not None and task is not None and task.argv == parent.argv


FROM_OUTSIDE = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"})
"""Signals that others send: the kernel, a scheduler, a terminal."""
