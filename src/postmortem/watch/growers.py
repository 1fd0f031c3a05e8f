"""Where the Python code of a process stands while the process grows."""

import time

from postmortem.facts.source import Problem
from postmortem.facts.threads import is_own

_SHARE = 500.0
"""A look that costs a second is followed by the next one after so many: 0.2 % of one core."""
_MOST_LOOKS = 40


class Growers:
    """Looks at stacks of processes that have just grown, seldom, and stops nothing."""

    def __init__(self) -> None:
        self.lines: dict[int, dict[str, int]] = {}
        self.looks: dict[int, int] = {}
        self.seconds = 0.0
        """Processor time spent here, children included."""
        self._next = 0.0

    def look(self, pid: int) -> None:
        """Note where the process stands, if it is time to."""
        now = time.monotonic()
        if now < self._next or self.looks.get(pid, 0) >= _MOST_LOOKS:
            return
        began = _spent()
        where = _place(pid)
        cost = _spent() - began
        self.seconds += cost
        self.looks[pid] = self.looks.get(pid, 0) + 1
        self._next = now + max(2.0, cost * _SHARE / (4 if self.looks[pid] < 8 else 1))
        if where is not None:
            rows = self.lines.setdefault(pid, {})
            rows[where] = rows.get(where, 0) + 1

    def of(self, pid: int) -> tuple[tuple[str, int], ...]:
        """Return the lines that were seen, the most frequent first."""
        rows = self.lines.get(pid, {})
        return tuple(sorted(rows.items(), key=lambda row: -row[1]))[:8]


def _spent() -> float:
    import resource

    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _place(pid: int) -> str | None:
    """Return ``train.py:41 in step``: the innermost frame of the program's own."""
    from postmortem.readers.launcher import Placement
    from postmortem.readers.live.job_processes import Member
    from postmortem.readers.live.snapshot import ReadOptions, read_members
    from postmortem.readers.live.status import read_status

    status = read_status(pid)
    if status is None or status.is_kernel_thread:
        return None
    problems: list[Problem] = []
    options = ReadOptions(engine="native", stop=False, deadline_seconds=5.0)
    found = read_members({pid: Member(status, Placement())}, options, problems).get(pid)
    if found is None:
        return None
    running = {task.tid for task in found.tasks if task.state == "R"} | {pid}
    for thread in sorted(found.threads.items, key=lambda one: one.tid not in running):
        frames = [one for one in thread.frames if one.kind == "python" and one.file]
        if not frames:
            continue
        own = next((one for one in frames if is_own(one.file)), frames[0])
        return f"{own.file}:{own.line} in {own.function}"
    return None
