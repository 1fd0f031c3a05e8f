"""The one way to open evidence, and files that evidence names: regular files, without waiting.

In a folder of a job anything may lie under any name: a FIFO whose open() waits for a writer, a
device that never ends, a socket.
"""

import errno
import io
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from postmortem import underway

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

KINDS = {
    stat.S_IFIFO: "a pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading; raises OSError, `underway.Refused` for all that is none."""
    name = os.fspath(path)
    underway.reading(name)
    name = _real(name)
    # Looked at first: to open a device alone may do something, such as rewind a tape.
    _require_regular(name, os.stat(name).st_mode)  # noqa: PTH116  a name may hold any bytes
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _require_regular(name, os.fstat(descriptor).st_mode)
        return io.BufferedReader(_Raw(descriptor, name))
    except BaseException:
        os.close(descriptor)
        raise


class _Raw(io.FileIO):
    """A file that never waits: the kernel has some that others write to (/proc/kmsg)."""

    def __init__(self, descriptor: int, path: str) -> None:
        """Take the descriptor, and what it is called in an error."""
        super().__init__(descriptor)
        self._nothing = OSError(errno.EAGAIN, "has nothing to read now", path)

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """As FileIO; raises OSError where nothing can be read now."""
        count = super().readinto(buffer)
        if count is None:
            raise self._nothing
        return count

    def readall(self) -> bytes:
        """As FileIO; raises OSError where nothing can be read now."""
        data = super().readall()
        if data is None:
            raise self._nothing
        return data


def unread(error: OSError) -> str:
    """Return why a file cannot be read, as a predicate of its name."""
    if isinstance(error, underway.Refused):
        return error.why
    name = error.filename
    if error.errno == errno.ENOENT and isinstance(name, str) and os.path.islink(name):  # noqa: PTH114
        return f"is a link to {os.readlink(name)}, which does not exist"  # noqa: PTH115
    return {
        errno.ENOENT: "no such file",
        errno.EACCES: "no permission to read it",
        errno.EISDIR: "is a directory",
    }.get(error.errno or 0, f"cannot be read: {error.strerror or error}")


def size_of(path: str) -> int:
    """Return how many bytes a file has; raises OSError."""
    return os.stat(_real(path)).st_size  # noqa: PTH116


def _real(name: str) -> str:
    return "/dev/stdin" if name == "-" else name


def is_regular(path: str | os.PathLike[str]) -> bool:
    """Return whether a regular file is there; what is neither that nor a folder is noted."""
    name = os.fspath(path)
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return False
    if stat.S_ISDIR(mode):
        return False
    try:
        _require_regular(name, mode)
    except underway.Refused:
        return False
    return True


def read_regular(path: str | os.PathLike[str], *, most: int) -> bytes:
    """Return what a regular file holds; more than `most` bytes are an OSError, too."""
    with open_regular(path) as stream:
        # No more than there is: a buffer is made for all that is asked for.
        data = stream.read(min(os.fstat(stream.fileno()).st_size or most, most) + 1)
    if len(data) > most:
        raise underway.refuse(os.fspath(path), f"holds more than {most:,} bytes")
    return data


def _require_regular(name: str, mode: int) -> None:
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(21, "is a directory", name)
    if kind != stat.S_IFREG:
        what = KINDS.get(kind, "of an unknown kind")
        raise underway.refuse(name, f"is {what}, not a regular file")
