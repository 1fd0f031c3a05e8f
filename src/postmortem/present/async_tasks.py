"""The tables of asyncio's tasks and of greenlets."""

from postmortem.diagnose.stacks.async_tasks import greenlet_rows, task_rows
from postmortem.facts.threads import Threads
from postmortem.report.blocks import Table
from postmortem.text import counted

_MOST = 12


def task_block(threads: Threads, *, verbose: bool) -> Table | None:
    """Return the table of tasks; None where there are none."""
    title = f"asyncio: {counted(len(threads.async_tasks), 'task')} not done"
    return _table(("task", "awaits", "at"), task_rows(threads), title, verbose=verbose)


def greenlet_block(threads: Threads, *, verbose: bool) -> Table | None:
    """Return the table of greenlets; None where there are none."""
    title = f"greenlets: {len(threads.greenlets):,} switched out"
    return _table(("greenlet", "in", "at"), greenlet_rows(threads), title, verbose=verbose)


def _table(
    head: tuple[str, ...], rows: list[tuple[str, str, str]], title: str, *, verbose: bool
) -> Table | None:
    if not rows:
        return None
    shown = rows if verbose else rows[:_MOST]
    if len(shown) < len(rows):
        title += f", {counted(len(rows) - len(shown), 'more place')} with -v"
    return Table(head, tuple(shown), title)
