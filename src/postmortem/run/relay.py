"""Signals that come to the supervisor, on their way to the command."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

from postmortem.run.sentinel import PASSED_ON

_GROUP_SECONDS = 0.05
"""Within what time the sentinel gets a signal that we got with all of our process group."""


class Relay:
    """Notes the signals that we get, and tells which of them the command has not got itself."""

    def __init__(self) -> None:
        self.pipe, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._pending: list[tuple[float, int]] = []
        self._group_heard: list[tuple[float, int]] = []

    @contextlib.contextmanager
    def handling(self, ignored: frozenset[int]) -> Iterator[None]:
        """Take note of signals, but for those that were ignored before: they stay so."""
        taken = [n for n in (*PASSED_ON, signal.SIGTTIN, signal.SIGTTOU) if n not in ignored]
        before = {n: signal.signal(n, _noted) for n in (*taken, signal.SIGCHLD)}
        wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wake)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self.pipe)
            os.close(self._wake)

    def drain(self) -> None:
        """Read which signals came."""
        try:
            numbers = os.read(self.pipe, 4096)
        except BlockingIOError:
            return
        for number in numbers:
            if number in PASSED_ON:
                self._pending.append((time.monotonic() + _GROUP_SECONDS, number))

    @property
    def times(self) -> list[float]:
        """When there is something to decide."""
        return [when for when, _ in self._pending]

    @property
    def undecided(self) -> list[int]:
        """The signals of which it is not known yet who else got them."""
        return [number for _, number in self._pending]

    def due(self, heard: list[int], waits: Callable[[int], bool]) -> Iterator[tuple[int, bool]]:
        """Return the signals that are decided, and whether the whole process group got each.

        `heard` are those that the sentinel got since the last call; one that `waits` is asked for
        again later.
        """
        now = time.monotonic()
        # Also after a stop of ours, in which the time of what we wait for went by.
        self._group_heard += [(now, number) for number in heard]
        self._group_heard = [row for row in self._group_heard if now - row[0] < 1.0]
        left = []
        for when, number in self._pending:
            match = next((row for row in self._group_heard if row[1] == number), None)
            if match is not None:
                self._group_heard.remove(match)
                yield number, True
            elif now < when:
                left.append((when, number))
            elif waits(number):
                left.append((now + 0.05, number))
            else:
                yield number, False
        self._pending = left


def _noted(number: int, frame: FrameType | None) -> None:
    """Do nothing: the number has gone into the pipe of `set_wakeup_fd`."""
