"""A rank that dies of a signal."""

import os
import signal

from postmortem.emulate import tree
from postmortem.emulate.fault import Fault, Say, Wait


class Kill(Fault):
    """A signal to one rank, `after` seconds from when it is seen first."""

    acts = True

    def __init__(self, who: int | None, after: float, number: int) -> None:
        self._who = who
        self._after = after
        self._signal = signal.Signals(number)
        self.missed = f"{tree.name(who)} was not there, or ended before its {after:g} s were over"

    def act(self, command: int, wait: Wait, say: Say) -> None:
        """Wait for the rank, then for its time."""
        while (pid := tree.find(command, self._who)) is None:
            if not wait(0.1):
                return
        pidfd = os.pidfd_open(pid)
        if wait(self._after) and tree.alive(pid):
            try:
                signal.pidfd_send_signal(pidfd, self._signal)
            except ProcessLookupError:
                return
            say(
                f"{self._signal.name} to {tree.name(self._who)} (pid {pid}), "
                f"{self._after:g} s after it began"
            )
