"""Prints of many ranks into one place, none of which tears another."""

import contextlib
import errno
import os
import select
import stat
import sys
import threading
from typing import Any, TextIO

_PIPE_LOCK = threading.Lock()


def printflock(
    *args: object,
    sep: str | None = " ",
    end: str | None = "\n",
    file: Any = None,
    flush: bool = True,
) -> None:
    r"""Print like `print`, each line behind ``[host:rank]``, whole, and all of them at once.

    What is printed goes out in one write(2), which the kernel keeps together on files and
    terminals; on a pipe it would tear what is longer than 4 KiB (PIPE_BUF), so that there the pipe
    itself is locked meanwhile (fcntl(2)). There is no lock file, and a process that dies holding
    the lock loses it. All writers have to print with this function.

    `flush` is there for those who are used to it: nothing is ever held back. A last line without a
    line break gets none (``end=""``).
    """
    stream = sys.stdout if file is None else file
    if stream is None:  # pythonw, a daemon: print does nothing then, too
        return
    text = (" " if sep is None else sep).join(map(str, args)) + ("\n" if end is None else end)
    lines = text.split("\n")
    last = lines.pop()
    lines = [f"{_prefix()} {line}\n" for line in lines] + ([f"{_prefix()} {last}"] if last else [])
    if lines:
        _write(stream, "".join(lines))


def _prefix() -> str:
    from postmortem.breakpoints.place import distributed, place

    # The rank may come late: by init_process_group().
    key = (os.getpid(), distributed() is not None)
    if _known.get("key") != key:
        _known.update(key=key, prefix=place().prefix)
    return str(_known["prefix"])


_known: dict[str, Any] = {}


def _write(stream: TextIO, text: str) -> None:
    try:
        number = stream.fileno()
    except (AttributeError, OSError, ValueError):  # no file of the kernel's: a notebook, a test
        stream.write(text)
        stream.flush()
        return
    stream.flush()  # what was printed before stands before
    encoding = getattr(stream, "encoding", None) or "utf-8"
    data = text.encode(encoding, "backslashreplace")
    if not stat.S_ISFIFO(os.fstat(number).st_mode):
        _write_all(number, data)
        return
    with _PIPE_LOCK, _locked(number):
        _write_all(number, data)


@contextlib.contextmanager
def _locked(number: int) -> Any:
    """Hold the lock of a pipe. It belongs to the process, also where all inherited one pipe."""
    import fcntl

    try:
        fcntl.lockf(number, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in (errno.EDEADLK, errno.EINVAL, errno.ENOLCK, errno.EBADF):
            raise
        yield  # lines of up to 4 KiB are whole nevertheless
        return
    try:
        yield
    finally:
        fcntl.lockf(number, fcntl.LOCK_UN)


def _write_all(number: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(number, data) :]
        except BlockingIOError:  # somebody made the pipe non-blocking
            select.select([], [number], [])
