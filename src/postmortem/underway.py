"""What is being done at this moment, kept where a process that watches us can see it.

A process that reads evidence may die of it, or wait for it for ever. Then another one must know
which file that was, what it leaves behind, and tell its successor to leave the file alone. Where
nobody watches, this is memory of our own and costs a few stores.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

TYPE_CHECKING = False  # type checkers know the name; typing would be in each child's way
if TYPE_CHECKING:
    from mmap import mmap

STARTING, READING, THINKING, WRITING = range(4)
"""What a process does: nothing yet, reading a file, drawing conclusions, writing its report."""

_LONGEST = 4096
_LIMITS = _LONGEST
_LEAVINGS = 2 * _LONGEST
PAGE_BYTES = 8 * _LONGEST
# The layout of the page: state, out of memory, input consumed, exit code + 1 (2 bytes), turns (8
# bytes), length of the path (4), the path; from `_LIMITS` on three numbers of 8 bytes, from
# `_LEAVINGS` on names that end in NUL.
# csrc/base/underway.h knows the first part.
_STATE, _MEMORY, _CONSUMED, _EXIT, _TURN, _LENGTH, _PATH = 0, 1, 2, 4, 8, 16, 20

refused: dict[str, str] = {}
"""Files that must not be opened, and why: what a process before us died of.

A name that ends in a slash is a folder below which nothing is opened.
"""
refusals: list[tuple[str, str]] = []
"""(path, why) of all that was not opened because it is not a regular file, or one of `refused`."""

before_writing: Callable[[], None] | None = None
"""Called before anything is written for the user."""

_page: mmap | bytearray = bytearray(PAGE_BYTES)
_left = _LEAVINGS


class Refused(OSError):
    """A file that is not opened."""

    @property
    def why(self) -> str:
        """Why it is not, as a predicate: ``"is a socket, not a regular file"``."""
        return str(self.strerror)


def watch(page: mmap) -> None:
    """Write to this page, which is shared with the process that watches."""
    global _page
    _page = page


def limited(
    memory_bytes: int | None, cpu_seconds: float | None, patience_seconds: float | None
) -> None:
    """Say which limits hold from now on; None for those that do not."""
    numbers = (memory_bytes or 0, 1000 * (cpu_seconds or 0), 1000 * (patience_seconds or 0))
    told = b"".join(int(number).to_bytes(8, "little") for number in numbers)
    _page[_LIMITS : _LIMITS + len(told)] = told


def reading(path: str) -> None:
    """Say which file is opened now; raises `Refused` for one that a process before us died of."""
    if refused:
        absolute = os.path.abspath(path)  # noqa: PTH100  asks no file system
        for given, why in refused.items():
            if path == given or (given.endswith("/") and absolute.startswith(given)):
                raise refuse(path, why)
    name = path.encode("utf-8", "surrogateescape")[: _LONGEST - _PATH]
    page = _page
    page[_LENGTH:_PATH] = len(name).to_bytes(4, "little")
    page[_PATH : _PATH + len(name)] = name
    _turn(READING)


def path() -> str | None:
    """Return the file that is being read."""
    return _path_in(_page)


def thinking() -> None:
    """Say that files are read, and what follows is our own doing."""
    _turn(THINKING)


def writing() -> None:
    """Say that output is being written; whoever reads it may be slow."""
    if not _page[_MEMORY]:  # else a successor writes
        claim_output()
        _turn(WRITING)


def claim_output() -> None:
    """Have standard output and standard error be those of the command, from now on."""
    global before_writing
    claim, before_writing = before_writing, None
    if claim is not None:
        claim()


def out_of_memory() -> None:
    """Say that there was no memory left."""
    _page[_MEMORY] = 1


def consuming() -> None:
    """Say that input is read which nobody can read again."""
    _page[_CONSUMED] = 1


def finished(code: int) -> None:
    """Say that all is done, and with which exit code."""
    _page[_EXIT : _EXIT + 2] = (code % 256 + 1).to_bytes(2, "little")


def refuse(path: str, why: str) -> Refused:
    """Note a file that is not opened, and return the error for it."""
    if len(refusals) < 10_000:
        refusals.append((path, why))
    return Refused(errno.EINVAL, why, path)


def leave(path: str) -> None:
    """Have a file or folder that is only for now removed if we are killed."""
    global _left
    name = os.path.abspath(path).encode("utf-8", "surrogateescape") + b"\0"  # noqa: PTH100
    if _left + len(name) < PAGE_BYTES:
        _page[_left : _left + len(name)] = name
        _left += len(name)


def _turn(state: int) -> None:
    page = _page
    turn = int.from_bytes(page[_TURN:_LENGTH], "little") + 1
    page[_TURN:_LENGTH] = (turn & (1 << 64) - 1).to_bytes(8, "little")
    page[_STATE] = state


class Page:
    """The page of another process, as the one that watches it reads it."""

    def __init__(self, page: mmap) -> None:
        self._page = page

    def clear(self) -> None:
        """Make it that of a process that has not begun."""
        self._page[:] = bytes(PAGE_BYTES)

    @property
    def state(self) -> int:
        """`STARTING`, `READING`, `THINKING` or `WRITING`."""
        return self._page[_STATE]

    @property
    def turn(self) -> int:
        """A number that changes with every file and state."""
        return int.from_bytes(self._page[_TURN:_LENGTH], "little")

    @property
    def lacked_memory(self) -> bool:
        """Whether it found no memory where it could still say so."""
        return self._page[_MEMORY] != 0

    @property
    def path(self) -> str | None:
        """The file that it reads, None in every other state."""
        return _path_in(self._page)

    @property
    def consumed(self) -> bool:
        """Whether it has read what its successor could not read again."""
        return self._page[_CONSUMED] != 0

    @property
    def exit_code(self) -> int | None:
        """The exit code of one that has done all, and need only end."""
        code = int.from_bytes(self._page[_EXIT : _EXIT + 2], "little")
        return code - 1 if code else None

    @property
    def memory_bytes(self) -> int | None:
        """Its limit of memory."""
        return self._limit(0)

    @property
    def cpu_seconds(self) -> float | None:
        """Its limit of processor time."""
        return _seconds(self._limit(1))

    @property
    def patience_seconds(self) -> float | None:
        """How long it may do nothing at all while it reads a file."""
        return _seconds(self._limit(2))

    def _limit(self, which: int) -> int | None:
        begin = _LIMITS + 8 * which
        return int.from_bytes(self._page[begin : begin + 8], "little") or None

    @property
    def leavings(self) -> list[str]:
        """What is to be removed once it is dead."""
        names = self._page[_LEAVINGS:].split(b"\0")
        return [name.decode("utf-8", "surrogateescape") for name in names if name]


def _seconds(milliseconds: int | None) -> float | None:
    return milliseconds and milliseconds / 1000


def _path_in(page: mmap | bytearray) -> str | None:
    if page[_STATE] != READING:
        return None
    size = min(int.from_bytes(page[_LENGTH:_PATH], "little"), _LONGEST - _PATH)
    return page[_PATH : _PATH + size].decode("utf-8", "surrogateescape")
