"""Files that the dead process had mapped, as they are on this machine now; never opened."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from postmortem.facts.memory import MappedFile
from postmortem.patterns import Pattern

STAT_SECONDS = 2.0
"""Longest that one file may take: a dead NFS server makes stat() hang, uninterruptibly."""

_DELETED = " (deleted)"
_OCTAL = Pattern(r"\\([0-7]{3})")

Answer = TypeVar("Answer")


def mapped_file(
    path: str, offset: int, *, deleted: bool, timeout: float = STAT_SECONDS
) -> MappedFile:
    """Return what is now at the path of a mapped file: size, and room of its file system.

    A file that was deleted when the core was written is not looked up, since another one may have
    its name now; its file system is. `exists` is False too when there is no answer within
    `timeout` seconds: then `filesystem_type` is known and the sizes are None.
    """
    name = path.removesuffix(_DELETED)
    deleted = deleted or name != path
    # Mount points are plain text from the kernel: this does not touch the file system
    filesystem_type = filesystem_type_in(mountinfo(), name)
    status = None if deleted else answer_within(timeout, lambda: os.stat(name))  # noqa: PTH116
    if status is None and not deleted and not _answers(name, timeout):
        return MappedFile(path, offset, exists=False, filesystem_type=filesystem_type)
    usage = answer_within(timeout, lambda: os.statvfs(_nearest_folder(name)))
    return MappedFile(
        path,
        offset,
        exists=status is not None,
        size=None if status is None else status.st_size,
        filesystem_free=None if usage is None else usage.f_bavail * usage.f_frsize,
        filesystem_size=None if usage is None else usage.f_blocks * usage.f_frsize,
        filesystem_type=filesystem_type,
        deleted_then=deleted,
    )


def answer_within(seconds: float, question: Callable[[], Answer]) -> Answer | None:
    """Return what a call on a file system gives; None if it fails or takes longer.

    The thread is a daemon: one that hangs in the kernel does not keep the program alive.
    """
    import threading  # late: most cores need no answer of a file system

    answers: list[Answer] = []

    def ask() -> None:
        try:
            answers.append(question())
        except (OSError, ValueError):  # ValueError: a NUL in a path out of a crafted core
            return

    thread = threading.Thread(target=ask, name="stat", daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None


def _answers(name: str, timeout: float) -> bool:
    """Return whether the file system answers at all, even with an error."""
    return bool(answer_within(timeout, lambda: os.path.lexists(name) or True))


def _nearest_folder(name: str) -> Path:
    folder = Path(name).parent
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def filesystem_type_in(text: str, name: str) -> str | None:
    """Return the type of the file system that a path lies on, by proc_pid_mountinfo(5).

    The longest mount point wins, and of equal ones the last, which hides the others.
    """
    best = _mount_in(text, name)
    return None if best is None else best[1]


def mount_point(name: str) -> str | None:
    """Return where the file system of an absolute path is mounted, without asking it."""
    best = _mount_in(mountinfo(), name)
    return None if best is None else best[0]


def mountinfo() -> str:
    """Return proc_pid_mountinfo(5) of this process; "" where there is none."""
    try:
        return Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return ""


def _mount_in(text: str, name: str) -> tuple[str, str] | None:
    """Return the mount point of a path, and the type of what is mounted there."""
    best: tuple[str, str] | None = None
    for point, _, kind in mounts_in(text):
        prefix = point if point.endswith("/") else point + "/"
        if (name + "/").startswith(prefix) and (best is None or len(point) >= len(best[0])):
            best = (point, kind)
    return best


def mounts_in(text: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield of each mount in proc_pid_mountinfo(5) where it is, its options, and of what type."""
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if separator and len(fields) > 5:
            point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
            yield point, tuple(fields[5].split(",")), right.split(" ", 1)[0]
