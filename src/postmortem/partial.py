"""New files beside the place where they will be: opened so that nobody's link is followed."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from postmortem import underway
from postmortem.errors import EvidenceError

_TRIES = 100
NO_ROOM = {
    errno.ENOSPC: "no space left there",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "files there (or ulimit -f) may not be larger",
}
"""Errors of writing that mean that a place is full, in words."""


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


@contextlib.contextmanager
def new_file(final: Path, kind: str = "partial", mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a new file that gets the name `final` once the context ends well; raises OSError.

    What was there before stays until then.
    """
    descriptor, path = create_beside(final, kind, mode)
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            yield stream
        path.replace(final)
    finally:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def partial_file(final: Path, kind: str = "partial") -> Iterator[tuple[BinaryIO, Path]]:
    """Give an empty private file beside `final`, removed at the end unless it was renamed.

    Only its owner may read it, as is usual for cores. Raises EvidenceError when it cannot be made,
    or when something in the context fails for want of space.
    """
    try:
        descriptor, path = create_beside(final, kind, 0o600)
    except OSError as error:
        raise cannot_write(final, error) from error
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            yield stream, path
    except OSError as error:
        raise cannot_write(final, error) from error
    finally:
        path.unlink(missing_ok=True)


def check_place(path: Path) -> Path:
    """Return where a new file of that name will be; raises EvidenceError where it must not be.

    A link stays a link: what it leads to is replaced.
    """
    final = Path(os.path.realpath(path))
    where = str(path)
    if final.is_dir():
        raise EvidenceError(where, "is a folder", hint="name a file in it")
    if not final.parent.is_dir():
        raise EvidenceError(where, f"there is no folder {final.parent}")
    # What /dev/stdout leads to may have no name: "/memfd:x (deleted)", "pipe:[7]".
    nameless = path.exists() and not final.exists()
    if nameless or (final.exists() and not stat.S_ISREG(final.stat().st_mode)):
        raise EvidenceError(where, "is not a regular file", hint="name a new file")
    return final


def cannot_write(path: Path, error: OSError) -> EvidenceError:
    """Return what is wrong with writing to that place."""
    reason = NO_ROOM.get(error.errno or 0) or error.strerror or str(error)
    return EvidenceError(str(path), f"cannot be written: {reason}")
