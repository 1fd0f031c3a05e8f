"""What keeps a process waiting: those that work for it, and what it looks at again and again."""

from collections.abc import Iterator

from postmortem.diagnose.hang.live_waits import waits_words
from postmortem.facts.live import LiveJob, LiveProcess, Motion
from postmortem.facts.threads import Thread, is_own
from postmortem.patterns import Pattern
from postmortem.records import replace

_WORKER_LOOP = Pattern(
    r"/torch/utils/data/_utils/worker\.py$|/concurrent/futures/process\.py$|/multiprocessing/pool\.py$"
)
_POOL = "/multiprocessing/pool.py"
_WAITS = ("wait4", "waitid")
_SLEEPS = ("nanosleep", "clock_nanosleep")


def naps_only(one: LiveProcess, thread: Thread, motion: Motion) -> bool:
    """Return whether a thread sleeps between looks at something that it waits for."""
    task = one.task(thread.tid)
    asleep = task is not None and task.call is not None and task.call.name in _SLEEPS
    return asleep and motion.goes_on and not motion.moved and motion.is_idle


def kept_by(
    job: LiveJob, one: LiveProcess, thread: Thread
) -> tuple[tuple[LiveProcess, Thread], ...]:
    """Return the processes that keep one waiting that works for nobody."""
    return (*_awaited(job, one, thread), *_at_work(job, one))


def kept_words(job: LiveJob, one: LiveProcess, thread: Thread) -> str:
    """Return ``sort (pid 4711) waits to read from fd 0 (…)``; empty where nobody keeps it."""
    found = kept_by(job, one, thread)
    return f"{found[0][0].label} {waits_words(*found[0])}" if found else lost_task(job, one, thread)


def lost_task(job: LiveJob, one: LiveProcess, thread: Thread) -> str:
    """Return that all workers of a Pool wait for a task, while a result of it is waited for.

    The Pool starts another worker where one has ended; the task of that one is gone.
    """
    loops = [w.main_thread for w in job.workers(one.pid) if w.role == "multiprocessing.Pool worker"]
    idle = bool(loops) and all(at is not None and not of_itself(at).frames for at in loops)
    if not idle or not _in_pool(thread):
        return ""
    others = (at.frames for at in one.threads if at is not thread and _in_pool(at))
    feeds = any(f.kind == "python" and is_own(f.file) for frames in others for f in frames)
    return "" if feeds else "no worker of its Pool has a task: one ended with it"


def _in_pool(thread: Thread) -> bool:
    return any((frame.file or "").endswith(_POOL) for frame in thread.frames)


def _at_work(job: LiveJob, one: LiveProcess) -> Iterator[tuple[LiveProcess, Thread]]:
    """Yield the processes that work for one and are in the user's code, not waiting for a task."""
    for worker in job.workers(one.pid):
        thread = worker.main_thread
        if thread is None or not any(_WORKER_LOOP.search(f.file or "") for f in thread.frames):
            continue
        if (task := of_itself(thread)).frames:
            yield worker, task


def of_itself(thread: Thread, loop: Pattern = _WORKER_LOOP) -> Thread:
    """Return a thread with the frames of its own task, none where no code of the user is in it.

    Outside of its loop stand the frames that it has from the process that forked it.
    """
    frames = thread.frames
    starts = (
        i
        for i, frame in enumerate(frames)
        if frame.function.endswith("_bootstrap") or loop.search(frame.file or "")
    )
    inner = frames[: next(starts, len(frames))]
    own = any(frame.kind == "python" and is_own(frame.file) for frame in inner)
    return replace(thread, frames=inner if own else ())


def _awaited(
    job: LiveJob, one: LiveProcess, thread: Thread
) -> Iterator[tuple[LiveProcess, Thread]]:
    """Yield the last of those that wait each for the end of the next, where that was read."""
    children = {worker.pid: worker for worker in job.workers(one.pid)}
    last: tuple[LiveProcess, Thread] | None = None
    while (task := one.task(thread.tid)) is not None and task.call is not None:
        pid = task.call.child
        if last is not None and task.call.name in _WAITS:  # a shell: the first feeds the others
            pid = pid or min((p for p, w in children.items() if w.ppid == one.pid), default=None)
        child = children.pop(pid or 0, None)
        if child is None or child.main_thread is None:
            break
        one, thread = last = child, child.main_thread
    if last is not None:
        yield last[0], of_itself(last[1])
