"""A process waited for a file lock.

What it means
    When the log ended, or somebody ended the process, it was in flock or fcntl(F_SETLKW):
    another process has a lock on the file and does not give it back. Two processes that each wait
    for the lock of the other took them in different orders. On network file systems
    the holder may be on another host, or the lock daemon may not answer at all.
How to be sure
    lslocks, or /proc/locks on every host that uses the file.
What to do
    End the holder; take locks in one order. Keep locks of caches (datasets, compiled kernels,
    torch extensions) on a local disk: HF_HOME, TORCH_EXTENSIONS_DIR, TRITON_CACHE_DIR can be set.
"""

from collections.abc import Iterator

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.diagnose.strace.arguments import argument, flags
from postmortem.diagnose.strace.calls import shortened, where, who
from postmortem.diagnose.strace.waits import cite_waits
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Task
from postmortem.records import record
from postmortem.text import counted, shell_word


@record
class _Wait:
    """Who waits for the lock of which file, and what shows it."""

    task: Task
    path: str | None
    cited: Evidence
    call: str


@rule(
    "https://man7.org/linux/man-pages/man2/flock.2.html",
    "https://man7.org/linux/man-pages/man2/fcntl.2.html",
)
def lock_wait(logs: Logs) -> Findings:
    waits = [*_at_the_end(logs)] or [*_until_a_signal(logs)]
    if not waits:
        return
    first = waits[0]
    path = first.path or "a file"
    holders = _holders(logs, first.task, path)
    held = f"; pid {holders[0]} took a lock on it before" if holders else ""
    others = "" if len(waits) == 1 else f", and {counted(len(waits) - 1, 'more task')}"
    pid = first.task.pid
    title = f"{who(pid)} waited for a lock on {shortened(path, 50)}{others}"
    other = next((one for one in waits if _is_circle(logs, first, one)), None)
    if other is not None and other.path is not None:
        paths = f"{shortened(path, 28)}, {shortened(other.path, 28)}"
        title = f"{who(pid)} and {who(other.task.pid)} wait for each other's lock: {paths}"
        held += f", and waits for one on {other.path} that {who(pid)} took: a circle"
    yield Finding(
        title=title,
        cause=f"{who(pid)} was in {first.call} for a lock on {path}{held}; nobody gave it back "
        "until the log's end",
        confidence=Confidence.LIKELY,
        next_steps=(
            f"lslocks{f' ; fuser -v {shell_word(path)}' if first.path else ''} : who holds it?",
            "on NFS or Lustre: the holder may be on another host; is the mount's lock service up?",
        ),
        evidence=tuple(one.cited for one in waits[:4]),
        about=Subject(pid=pid or None),
    )


def _at_the_end(logs: Logs) -> Iterator[_Wait]:
    """Yield who was in a call for a lock when the log, or its process, ended."""
    for task in logs.stuck():
        if task.blocked is not None and _for_lock(task):
            target = task.blocked.target
            path = None if target is None else target.words
            yield _Wait(task, path, cite_waits([task])[0], task.blocked.syscall)


def _until_a_signal(logs: Logs) -> Iterator[_Wait]:
    """Yield who was in flock until a signal that asks to end got it out, and ended of that."""
    for task in logs.tasks():
        if not task.interruptions or task.ending is None:
            continue
        one = task.interruptions[0]
        ended = task.ending.code or task.ending.signal
        if one.syscall != "flock" or one.seconds < thresholds.LOCK_WAIT_SECONDS or not ended:
            continue
        said = f"{one.signal} got {who(task.pid)} out of flock on {one.target}"
        said += f" after {one.seconds:.1f} s"
        yield _Wait(task, one.target, Evidence(where(one), clip(said, 200)), "flock")


def _is_circle(logs: Logs, one: _Wait, other: _Wait) -> bool:
    """Return whether each of two processes waits for what the other one holds."""
    if one.path is None or other.path is None or one.path == other.path:
        return False
    held = other.task.pid in _holders(logs, one.task, one.path)
    return held and one.task.pid in _holders(logs, other.task, other.path)


def _for_lock(task: Task) -> bool:
    assert task.blocked is not None
    if task.blocked.syscall == "flock":
        return True
    waits = argument(task.blocked, 1) in ("F_SETLKW", "F_SETLKW64", "F_OFD_SETLKW")
    return task.blocked.syscall.startswith("fcntl") and waits


def _holders(logs: Logs, waiting: Task, path: str) -> list[int]:
    """Return processes that took a lock on the same file, the last first."""
    taken: dict[int, bool] = {}
    for match in logs.asked("flock"):
        if match.target.words == path and match.pid != waiting.pid and match.errno is None:
            taken.pop(match.pid, None)
            taken[match.pid] = "LOCK_UN" not in flags(match, 1) and match.returned == 0
    return [pid for pid, held in reversed(taken.items()) if held]
