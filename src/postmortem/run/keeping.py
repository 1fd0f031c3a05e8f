"""A copy of what a command writes to terminals and pipes, kept by a process between the two.

Only for who asks: a terminal of its own in place of the user's is no controlling one (tcgetpgrp(3)
fails on it), and when this process dies the command cannot write any more. Standard input stays the
user's terminal, so Ctrl-C, Ctrl-Z and what is typed reach the command as they do without.
"""

import contextlib
import os
import select
import signal
import stat
import termios
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

_KEPT_BYTES = 1 << 20
_PIECE = 1 << 16
_WAIT_SECONDS = 5.0


class Keeper:
    """Stands between the command and where it writes, from its making to `finish`."""

    def __init__(self, path: Path) -> None:
        """Put it there; raises OSError. In the end `path` has the last of what was written."""
        self.path = path
        self._mark = os.urandom(16)
        self._saved: list[tuple[int, int]] = []
        self._ends: list[int] = []
        streams: dict[int, int] = {}
        ends = [(numbers, _ends_like(numbers[0])) for numbers in _written_to()]
        for numbers, (near, far) in ends:
            streams[near] = os.dup(numbers[0])
            self._ends.append(far)
            for number in numbers:
                self._saved.append((number, os.dup(number)))
                os.dup2(far, number)
        asked, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _leave_alone({*streams, *streams.values(), asked, answer})
                _pass_on(streams, asked, answer, path, self._mark)
            finally:
                os._exit(0)
        for number in (asked, answer, *streams, *streams.values()):
            os.close(number)

    def finish(self) -> None:
        """Have all that was written before passed on and kept; our own words go straight again."""
        with contextlib.suppress(OSError):
            os.write(self._ask, b"?")
            for end in self._ends:
                os.write(end, self._mark)
            select.select([self._answer], [], [], _WAIT_SECONDS)
        for number, saved in self._saved:
            os.dup2(saved, number)
        for number in (self._ask, self._answer, *self._ends, *(one for _, one in self._saved)):
            os.close(number)


def _written_to() -> list[list[int]]:
    """Return standard output and error, together where they are one, but regular files."""
    found: dict[tuple[int, int], list[int]] = {}
    for number in (1, 2):
        with contextlib.suppress(OSError):
            status = os.fstat(number)
            if stat.S_ISFIFO(status.st_mode) or os.isatty(number):
                found.setdefault((status.st_dev, status.st_ino), []).append(number)
    return list(found.values())


def _ends_like(number: int) -> tuple[int, int]:
    """Return both ends of a pipe, or of a terminal, which leaves every byte to the other one."""
    if not os.isatty(number):
        return os.pipe()
    near, far = os.openpty()
    modes = termios.tcgetattr(number)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(far, termios.TCSANOW, modes)
    termios.tcsetwinsize(near, termios.tcgetwinsize(number))
    return near, far


def _leave_alone(mine: set[int]) -> None:
    """Let signals of the terminal pass, and close what is others'."""
    for number in (*range(1, 16), signal.SIGTSTP, signal.SIGTTOU):
        if number not in (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS):
            signal.signal(number, signal.SIG_IGN)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in mine:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _pass_on(streams: Mapping[int, int], asked: int, answer: int, path: Path, mark: bytes) -> None:
    """Write what comes to where it was meant to go, until nobody can write any more."""

    def resized(_: int, __: FrameType | None) -> None:
        sizes = {near: termios.tcgetwinsize(to) for near, to in streams.items() if os.isatty(near)}
        new = [near for near, size in sizes.items() if size != termios.tcgetwinsize(near)]
        for near in new:
            termios.tcsetwinsize(near, sizes[near])
        if new:  # the command got its signal before there was a new size
            os.killpg(0, signal.SIGWINCH)

    signal.signal(signal.SIGWINCH, resized)
    kept = bytearray()
    rest: dict[int, bytes] = {}
    writable, unmarked = set(streams), set(streams)
    ending = answered = False
    while writable:
        ready = select.select([*writable, *([] if ending else [asked])], [], [])[0]
        came = {near: _read(near) for near in ready if near != asked}
        # Looked at after what came: a mark is never there before it is announced.
        if not ending and select.select([asked], [], [], 0)[0]:
            ending, answered = True, not os.read(asked, 1)  # who would have asked may be gone
        for near, data in came.items():
            closed, new = not data, near in unmarked and not answered
            if ending and new:
                data, found, after = (rest.pop(near, b"") + data).partition(mark)
                part = 0 if found or closed else _begun(data, mark)
                rest[near], data = data[len(data) - part :], data[: len(data) - part]
                kept += data
                data += after
                if found:
                    unmarked.discard(near)
            elif new:
                kept += data
            if closed or not _write(streams[near], data):
                writable.discard(near)
                unmarked.discard(near)
                os.close(near)
        del kept[: max(0, len(kept) - _KEPT_BYTES)]
        if ending and not answered and not unmarked:
            answered = True
            path.write_bytes(kept)
            os.write(answer, b"!")


def _begun(data: bytes, mark: bytes) -> int:
    """Return how many bytes at the end of what came may begin the mark."""
    return next((n for n in range(len(mark) - 1, 0, -1) if data.endswith(mark[:n])), 0)


def _read(number: int) -> bytes:
    try:
        return os.read(number, _PIECE)
    except OSError:  # a terminal that nobody has open any more
        return b""


def _write(number: int, data: bytes) -> bool:
    """Return whether all of it went out; the command may have made a terminal non-blocking."""
    while data:
        try:
            data = data[os.write(number, data) :]
        except BlockingIOError:
            select.select([], [number], [])
        except OSError:
            return False
    return True
