"""What the supervisor asks of the kernel for itself: descriptors, orphans, the limit of cores."""

import contextlib
import errno
import os
import resource


def adopt_orphans() -> None:
    """Become the parent of what the command's processes leave behind (prctl(2))."""
    import ctypes

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def leave_files() -> None:
    """Let go of standard input and output: they are the command's."""
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def more_descriptors() -> None:
    """Take as many descriptors as we may: one for each process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def soft_core_limit() -> int:
    """Return the limit of cores that is in force; -1: unlimited."""
    return resource.getrlimit(resource.RLIMIT_CORE)[0]


def core_limit() -> tuple[int, int] | None:
    """Return the limit of cores to run with; None where the user has set one already.

    A quarter of what is free where they go, so that a job of many ranks does not fill the disk.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if soft != 0 or hard == 0:
        return None
    try:
        free = os.statvfs(".")
        room = free.f_bavail * free.f_frsize // 4
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES):
            raise
        room = 0
    if hard != resource.RLIM_INFINITY:
        room = min(room, hard)
    return (room, hard) if room > 0 else None
