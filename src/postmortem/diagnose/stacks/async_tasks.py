"""What the tasks of an event loop and greenlets wait for, those in the same place together."""

from postmortem.diagnose.stacks.activity import python_place
from postmortem.facts.threads import AsyncTask, Frame, Greenlet, Threads, is_own
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


def greenlet_rows(threads: Threads, tid: int | None = None) -> list[tuple[str, str, str]]:
    """Return for each place: the greenlets, the call that they wait in, and the user's own code.

    What a thread began with comes first. With `tid`, only that thread's.
    """
    same: dict[tuple[object, ...], list[Greenlet]] = {}
    for one in threads.greenlets:
        if tid is None or one.tid == tid:
            same.setdefault((one.main, one.type, one.frames), []).append(one)
    rows = []
    for alike in sorted(same.values(), key=lambda alike: (not alike[0].main, -len(alike))):
        inner, own = alike[0].frames[0], own_frame(alike[0])
        rows.append((_who(alike), "" if own is inner else python_place(inner), python_place(own)))
    return rows


def _who(alike: list[Greenlet]) -> str:
    if alike[0].main:
        return "main"
    if all(one.name for one in alike):
        return some([one.name for one in alike], 3)
    return alike[0].type if len(alike) == 1 else f"{len(alike):,} of type {alike[0].type}"


def loop_words(threads: Threads, tid: int) -> str:
    """Return ``waits in an event loop with 3 tasks: …``; empty where it runs none of them.

    Of a thread in gevent's hub the same is said of its greenlets.
    """
    tasks = [task for task in threads.async_tasks if task.tid == tid]
    if not tasks:
        return _hub_words(threads, tid)
    if any(task.running for task in tasks):
        return ""
    who, awaits, place = task_rows(threads, tid)[0]
    return (
        f"waits in an event loop with {counted(len(tasks), 'task')}: {who} for {awaits} at {place}"
    )


def _hub_words(threads: Threads, tid: int) -> str:
    frames = next((one.frames for one in threads if one.tid == tid), ())
    file = next((frame.file for frame in frames if frame.kind == "python"), None) or ""
    rows = greenlet_rows(threads, tid)
    if not rows or not file.endswith("/gevent/hub.py"):
        return ""
    who, _, place = rows[0]
    count = sum(one.tid == tid for one in threads.greenlets)
    return f"waits in gevent's hub with {counted(count, 'greenlet')}: {who} at {place}"


def own_frame(task: AsyncTask | Greenlet) -> Frame:
    """Return the innermost call of the user's own code, else the innermost one."""
    return next((frame for frame in task.frames if is_own(frame.file)), task.frames[0])


def _stands(task: AsyncTask) -> tuple[str, str]:
    inner, own = task.frames[0], own_frame(task)
    if task.running:
        return "runs", python_place(own)
    if task.waits_for:
        return some(task.waits_for, 4), python_place(own)
    return (task.waits_on or "its turn") if own is inner else python_place(inner), python_place(own)
