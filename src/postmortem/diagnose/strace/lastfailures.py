"""What failed last in processes that ended badly: it may be why, when nothing else explains it."""

from postmortem.facts.syscalls import LastFailure, SystemCalls, Task
from postmortem.patterns import Pattern

_OPENS = frozenset({"open", "openat", "openat2", "execve", "chdir", "opendir", "mkdir", "mkdirat"})
# Where programs look for parts of themselves: most of it is not there, and need not be.
_SEARCHED = Pattern(
    r"\.(?:so|pyc|pyi?|pth|egg-info|dist-info|cfg|mo|cache|conf)(?:[.\d]*)$|/__pycache__|/locale/"
    r"|^/etc/|^/proc/|^/sys/|/site-packages(?:/|$)|/lib/python|/glibc-hwcaps/|/gconv|/nscd/"
    r"|/pybuilddir\.txt$|/pyvenv\.cfg$|\._pth$|/terminfo/|/package\.json$|/\.\w+rc$|\.dw[op]$|\.debug$|/\.debug/|/usr/lib/debug/|/<(?:stdin|string|frozen)|^<|/\.(?:local|config|cache)/|/python\d[\d.]*$"
)
# What a kernel or a processor can do.
_PROBES = frozenset({
    "pkey_alloc", "arch_prctl", "membarrier", "rseq", "ioctl", "io_uring_setup", "madvise", "fcntl",
})  # fmt: skip
_REFUSED = frozenset({"EINVAL", "ENOSYS", "EOPNOTSUPP", "EBADF"})
_ASKED = frozenset({"ENOENT", "EEXIST", "ENOTDIR"})
_MOST = 4


def is_asking(failure: LastFailure) -> bool:
    """Return whether a failure is how a program asks what is there, mostly for parts of itself."""
    if failure.errno not in _ASKED:
        return False
    path = failure.path
    return path is None or failure.syscall not in _OPENS or bool(_SEARCHED.search(path))


def _ran(task: Task, path: str) -> bool:
    """Return whether a program that was not at a path ran after all: it was further on in PATH."""
    return (
        task.argv is not None
        and path.rpartition("/")[2] == "".join(task.argv[:1]).rpartition("/")[2]
    )


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
            if failure.syscall in _PROBES and failure.errno in _REFUSED:
                continue
            if (
                path == "/dev/tty"
                or is_asking(failure)
                or (failure.errno in _ASKED and path in opened)
            ):
                continue
            if failure.syscall == "execve" and _ran(task, path or ""):
                continue
            found.setdefault((failure.errno, path), failure)
        if found:
            rows.append((task, tuple(found.values())[:_MOST]))
    return tuple(rows)
