"""Files that the dead process had mapped, as they are on this machine now; never opened."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from postmortem.facts.memory import MappedFile
from postmortem.readers.mounts import mount_of, mountinfo

STAT_SECONDS = 2.0
"""Longest that one file may take: a dead NFS server makes stat() hang, uninterruptibly."""

_DELETED = " (deleted)"

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
    mount = mount_of(name, mountinfo())
    filesystem_type = None if mount is None else mount.type
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
    """Return what a call on a file system gives; None if it fails or takes longer."""
    return answers_within(seconds, [question])[0]


def answers_within(
    seconds: float, questions: Sequence[Callable[[], Answer]]
) -> list[Answer | None]:
    """Ask all at once, and return what each gives; None if it fails or takes longer.

    The threads are daemons: one that hangs in the kernel does not keep the program alive.
    """
    import threading  # late: most cores need no answer of a file system

    answers: list[Answer | None] = [None] * len(questions)

    def ask(number: int) -> None:
        try:
            answers[number] = questions[number]()
        except (OSError, ValueError):  # ValueError: a NUL in a path out of a crafted core
            return

    threads = [
        threading.Thread(target=ask, args=(number,), name="stat", daemon=True)
        for number in range(len(questions))
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return [*answers]


def _answers(name: str, timeout: float) -> bool:
    """Return whether the file system answers at all, even with an error."""
    return bool(answer_within(timeout, lambda: os.path.lexists(name) or True))


def _nearest_folder(name: str) -> Path:
    folder = Path(name).parent
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder
