"""New files beside the place where they will be: opened so that nobody's link is followed."""

from __future__ import annotations

import os
from pathlib import Path

from postmortem import underway

_TRIES = 100


def create_beside(final: Path, kind: str = "partial", mode: int = 0o666) -> tuple[int, Path]:
    """Return a descriptor, to read and write, of a new empty file beside `final`, and its path.

    A file or link that is there already, left over or planted, is neither followed nor touched:
    the new file gets another name. Raises OSError where none can be made.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    stem = f".{final.name[:200]}.{os.getpid()}"
    path = final.with_name(f"{stem}.{kind}")
    for _ in range(_TRIES):
        try:
            underway.leave(os.fspath(path))
            return os.open(path, flags, mode), path
        except FileExistsError:
            path = final.with_name(f"{stem}.{os.urandom(4).hex()}.{kind}")
    return os.open(path, flags, mode), path
