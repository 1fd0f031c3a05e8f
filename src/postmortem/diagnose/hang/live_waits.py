"""What a thread of a live process waits for, in words, along the chain of who holds what."""

from collections.abc import Sequence

from postmortem.diagnose.stacks.async_tasks import loop_words
from postmortem.facts.live import HotPath, LiveProcess, Task
from postmortem.facts.threads import Frame, Thread, is_own, own_frames

_LONGEST_CHAIN = 6
_LOCKS = ("lock", "mutex", "unowned mutex", "python lock", "rwlock", "gil", "stdio", "heap", "join")
_STATES = {"R": "runs", "T": "is stopped by a signal", "t": "is stopped by a tracer"}


def wait_words(process: LiveProcess, thread: Thread) -> str:
    """Return the first step of `waits_words`: ``waits for a Python lock (held by thread 12)``."""
    wait, task = thread.waits_for, process.task(thread.tid)
    if wait is None or (task is not None and task.state in ("T", "t")):
        return _own_words(process, thread)
    held = ""
    if wait.holder is not None and wait.kind != "join":
        held = f" (held by {_named(process, wait.holder)})"
    return f"waits for {wait.what}{held}"


def waits_words(process: LiveProcess, thread: Thread) -> str:
    """Return ``waits for a Python lock that thread 12 "saver" holds, which …``, along the chain."""
    words = _own_words(process, thread)
    holders = _holders(process, thread)
    for holder in holders:
        if holder is holders[-1] and is_in_circle(process, thread):
            return f"{words}: a circle"
        words += f", which {_own_words(process, holder)}{_at(holder)}"
    return words


def is_in_circle(process: LiveProcess, thread: Thread) -> bool:
    """Return whether it waits for somebody who waits in a circle, with or without it."""
    tids = [thread.tid, *(one.tid for one in _holders(process, thread))]
    return tids[-1] in tids[:-1]


def _holders(process: LiveProcess, thread: Thread) -> list[Thread]:
    """Return whom it waits for, whom those wait for and so on, up to one who came before."""
    threads = {one.tid: one for one in process.threads}
    found: list[Thread] = []
    wait, seen = thread.waits_for, {thread.tid}
    while wait is not None and wait.holder is not None and wait.holder in threads:
        if len(seen) >= _LONGEST_CHAIN:
            break
        found.append(threads[wait.holder])
        if wait.holder in seen:
            break
        seen.add(wait.holder)
        wait = found[-1].waits_for
    return found


def call_words(frames: Sequence[Frame]) -> str:
    """Return the innermost Python function, where it is a library's: ``barrier``."""
    inner = next((one for one in frames if one.kind == "python"), None)
    return inner.function if inner is not None and not is_own(inner.file) else ""


def place_words(thread: Thread, *, most: int = 2) -> str:
    """Return the innermost calls of the user's own code: ``step (train.py:31)``."""
    frames = own_frames(thread)[:most]
    return ", called by ".join(map(_place, frames))


def hot_words(path: HotPath) -> str:
    """Return ``10 of 12 looks found it in collate (data.py:42)``."""
    call = path.own
    return f"{call.looks} of {path.looks} looks found it in {_place(call.frame)}"


def _own_words(process: LiveProcess, thread: Thread) -> str:
    task = process.task(thread.tid)
    wait = thread.waits_for
    if task is not None and task.state in ("T", "t"):
        return _STATES[task.state]
    if wait is not None:
        holder = ""
        if wait.holder is not None and wait.kind != "join":
            doubt = "" if wait.certain else " (likely)"
            holder = f" that {_named(process, wait.holder)} holds{doubt}"
            holder += f" since {wait.held_at}" if wait.held_at else ""
        elif wait.missing_owner is not None:
            holder = f" whose owner, {wait.missing_owner}, is not in this process"
        elif wait.holder is None and wait.kind in _LOCKS and wait.kind != "gil":
            holder = ", whose holder is not known"
        return f"waits for {wait.what}{holder}"
    return loop_words(process.threads, thread.tid) or _kernel_words(task)


def _kernel_words(task: Task | None) -> str:
    if task is None:
        return "stands"
    if task.state == "D":
        call = task.call.words if task.call is not None else "waits"
        channel = f", in {task.wait_channel}" if task.wait_channel else ""
        return f"{call}, and cannot be interrupted{channel}"
    if task.state == "R" or task.call is None:
        return _STATES.get(task.state, "waits" if task.wait_channel else "stands")
    return task.call.words


def _named(process: LiveProcess, tid: int) -> str:
    thread = next((one for one in process.threads if one.tid == tid), None)
    return thread.words if thread is not None else f"thread {tid}"


def _at(thread: Thread) -> str:
    place = place_words(thread, most=1)
    return f" at {place}" if place else ""


def _place(frame: Frame) -> str:
    file = (frame.file or frame.module or "").rpartition("/")[2]
    where = f"{file}:{frame.line}" if frame.line is not None else file
    return f"{frame.function} ({where})" if where else frame.function
