"""Tasks of an event loop that nothing can wake: it has no call due and watches nothing outside."""

from collections.abc import Sequence

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role
from postmortem.diagnose.stacks.activity import python_place
from postmortem.diagnose.stacks.async_tasks import own_frame, task_rows
from postmortem.facts.threads import AsyncTask, Threads
from postmortem.text import counted

_MOST_TOLD = 8


def stuck_tasks(threads: Threads, role: Role | None) -> Findings:
    """Yield that the only thread of Python runs a loop whose tasks wait for each other.

    Another thread could call the loop (``call_soon_threadsafe``), and a task that waits alone may
    be meant to wait until the process is ended.
    """
    python = [thread for thread in threads if thread.python_name]
    tasks = [task for task in threads.async_tasks if task.tid in threads.idle_loops]
    if len(python) != 1 or not tasks or tasks[0].tid != python[0].tid:
        return
    circle = circle_of(tasks)
    rows = task_rows(threads, python[0].tid)
    if circle:
        title = f"deadlock: {counted(len(circle), 'task')} of asyncio wait for each other"
        cause = "; ".join(_edge(task, circle) for task in circle[:_MOST_TOLD])
    else:
        title = f"{counted(len(tasks), 'task')} of asyncio cannot go on: nothing is left to wake"
        cause = "; ".join(f"{who} waits for {what}" for who, what, _ in rows[:_MOST_TOLD])
    yield Finding(
        title=title,
        cause=f"{cause}. Their event loop has no call due, no timer, and watches no descriptor",
        confidence=Confidence.LIKELY if circle else Confidence.POSSIBLE,
        next_steps=(
            "see which task was to set, release or finish what these wait for, and where it stands",
            "until that is fixed, bound the waits (asyncio.timeout) and log who fails",
        ),
        evidence=tuple(
            Evidence(f"task {who}", f"waits for {what} at {place}")
            for who, what, place in rows[:_MOST_TOLD]
        ),
        role=role,
    )


def circle_of(tasks: Sequence[AsyncTask]) -> list[AsyncTask]:
    """Return tasks of which each awaits the next one, and the last the first; none else."""
    names = [task.name for task in tasks]
    by_name = {task.name: task for task in tasks if names.count(task.name) == 1}
    for start in by_name.values():
        path: list[AsyncTask] = [start]
        while len(path[-1].waits_for) == 1 and (after := by_name.get(path[-1].waits_for[0])):
            if after in path:
                return path[path.index(after) :]
            path.append(after)
    return []


def _edge(task: AsyncTask, circle: Sequence[AsyncTask]) -> str:
    after = circle[(circle.index(task) + 1) % len(circle)]
    return f"{task.name} awaits {after.name} in {python_place(own_frame(task))}"
