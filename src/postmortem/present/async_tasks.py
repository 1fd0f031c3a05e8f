"""The table of asyncio's tasks."""

from postmortem.diagnose.stacks.async_tasks import task_rows
from postmortem.facts.threads import Threads
from postmortem.report.blocks import Table
from postmortem.text import counted

_MOST = 12


def task_block(threads: Threads, *, verbose: bool) -> Table | None:
    """Return the table of tasks; None where there are none."""
    rows = task_rows(threads)
    if not rows:
        return None
    shown = rows if verbose else rows[:_MOST]
    left = (
        f", {counted(len(rows) - len(shown), 'more place')} with -v"
        if len(shown) < len(rows)
        else ""
    )
    count = counted(len(threads.async_tasks), "task")
    return Table(("task", "awaits", "at"), tuple(shown), f"asyncio: {count} not done{left}")
