"""What failed last in processes that ended badly: it may be why, when nothing else explains it."""

from __future__ import annotations

from postmortem.facts.syscalls import LastFailure, SystemCalls, Task
from postmortem.patterns import Pattern

_OPENS = frozenset({"open", "openat", "openat2", "execve", "chdir", "opendir", "mkdir", "mkdirat"})
# Where programs look for parts of themselves: most of it is not there, and need not be.
_SEARCHED = Pattern(
    r"\.(?:so|pyc|pyi?|pth|egg-info|dist-info|cfg|mo|cache|conf)(?:[.\d]*)$|/__pycache__|/locale/"
    r"|^/etc/|^/proc/|^/sys/|/site-packages(?:/|$)|/lib/python|/glibc-hwcaps/|/gconv|/nscd/"
    r"|/pybuilddir\.txt$|/pyvenv\.cfg$|\._pth$|/terminfo/|/<(?:stdin|string|frozen)|^<|/\.(?:local|config|cache)/|/python\d[\d.]*$"
)
_MOST = 4


def last_failures(log: SystemCalls) -> tuple[tuple[Task, tuple[LastFailure, ...]], ...]:
    """Return processes that exited with an error, each with what failed last, the last first."""
    opened = {file.path for file in log.files if file.opens}
    rows = []
    for task in log.tasks:
        end = task.ending
        if task.thread_of is not None or end is None or not end.code:
            continue
        found: dict[tuple[str, str | None], LastFailure] = {}
        for failure in reversed(task.last_failures):
            path = failure.path
            asks = failure.errno in ("ENOENT", "EEXIST", "ENOTDIR")
            if asks and (path is None or path in opened):
                continue
            if asks and (failure.syscall not in _OPENS or _SEARCHED.search(path or "")):
                continue
            found.setdefault((failure.errno, path), failure)
        if found:
            rows.append((task, tuple(found.values())[:_MOST]))
    return tuple(rows)
