"""A process waited for a file lock.

What it means
    When the log ended, or somebody killed the process, it was in flock or fcntl(F_SETLKW):
    another process has a lock on the file and does not give it back. On network file systems
    the holder may be on another host, or the lock daemon may not answer at all.
How to be sure
    lslocks, or /proc/locks on every host that uses the file.
What to do
    End the holder. Keep locks of caches (datasets, compiled kernels, torch extensions) on a
    local disk: HF_HOME, TORCH_EXTENSIONS_DIR, TRITON_CACHE_DIR can be set.
"""

from postmortem.diagnose.rule import Confidence, Finding, Findings, Subject, rule
from postmortem.diagnose.strace.arguments import argument, flags
from postmortem.diagnose.strace.calls import quoted, shortened, who
from postmortem.diagnose.strace.waits import cite_waits, said_to_wait
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Task
from postmortem.text import counted


@rule(
    "https://man7.org/linux/man-pages/man2/flock.2.html",
    "https://man7.org/linux/man-pages/man2/fcntl.2.html",
)
def lock_wait(logs: Logs) -> Findings:
    waits = [task for task in logs.stuck() if task.blocked and _for_lock(task)]
    if not waits:
        return
    first = waits[0]
    assert first.blocked is not None
    target = first.blocked.target
    path = "a file" if target is None else target.words
    holders = _holders(logs, first, path)
    held = f"; pid {holders[0]} took a lock on it before" if holders else ""
    others = "" if len(waits) == 1 else f", and {counted(len(waits) - 1, 'more task')}"
    yield Finding(
        title=f"{who(first.pid)} waited for a lock on {shortened(path, 50)}{others}",
        cause=f"{said_to_wait(first)} for a lock on {path}{held}; nobody gave it back until the "
        "log's end",
        confidence=Confidence.LIKELY,
        next_steps=(
            f"lslocks{'' if target is None else f' ; fuser -v {quoted(target)}'} : who holds it?",
            "on NFS or Lustre: the holder may be on another host; is the mount's lock service up?",
        ),
        evidence=cite_waits(waits),
        about=Subject(pid=first.pid or None),
    )


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
