"""What the tasks of an event loop wait for, those that stand in the same place together."""

from postmortem.diagnose.stacks.names import location
from postmortem.facts.threads import AsyncTask, Frame, Threads, is_own
from postmortem.text import counted, some


def task_rows(threads: Threads, tid: int | None = None) -> list[tuple[str, str, str]]:
    """Return for each place: the tasks, what they await, and where in the user's own code.

    Tasks that await other tasks come last: those that they await say why. With `tid`, only the
    tasks of that thread's loop.
    """
    same: dict[tuple[object, ...], list[AsyncTask]] = {}
    for task in threads.async_tasks:
        if tid is None or task.tid == tid:
            same.setdefault((task.frames, task.running, bool(task.waits_for)), []).append(task)
    found = sorted(same.values(), key=lambda tasks: (bool(tasks[0].waits_for), -len(tasks)))
    return [(some([task.name for task in tasks], 3), *_stands(tasks[0])) for tasks in found]


def loop_words(threads: Threads, tid: int) -> str:
    """Return ``runs an event loop in which 3 tasks wait: …``; empty where it runs none of them."""
    tasks = [task for task in threads.async_tasks if task.tid == tid]
    if not tasks or any(task.running for task in tasks):
        return ""
    who, awaits, place = task_rows(threads, tid)[0]
    return (
        f"waits in an event loop with {counted(len(tasks), 'task')}: {who} for {awaits} at {place}"
    )


def own_frame(task: AsyncTask) -> Frame:
    """Return the innermost call of the user's own code, else the innermost one."""
    return next((frame for frame in task.frames if is_own(frame.file)), task.frames[0])


def _stands(task: AsyncTask) -> tuple[str, str]:
    inner, own = task.frames[0], own_frame(task)
    if task.running:
        return "runs", _place(own)
    if task.waits_for:
        return some(task.waits_for, 4), _place(own)
    return (task.waits_on or "its turn") if own is inner else _place(inner), _place(own)


def _place(frame: Frame) -> str:
    where = location(frame.file, frame.line)
    return f"{frame.function} ({where})" if where else frame.function
