"""A rank that is slower than the others: it is stopped most of the time."""

import signal

from postmortem.emulate import tree
from postmortem.emulate.fault import Fault, Say, Wait

_PERIOD_SECONDS = 0.2


class Slow(Fault):
    """One rank and what it has started run one of `factor` parts of the time.

    SIGSTOP and SIGCONT need no rights and slow down everything, also what waits for a device.
    """

    acts = True

    def __init__(self, who: int | None, factor: float, after: float) -> None:
        self._who = who
        self._factor = factor
        self._after = after
        self.missed = f"{tree.name(who)} was not there for {after:g} s"

    def act(self, command: int, wait: Wait, say: Say) -> None:
        """Stop it and let it go on, in turns, until the command is over."""
        while (pid := tree.find(command, self._who)) is None:
            if not wait(0.1):
                return
        if not wait(self._after) or not tree.alive(pid):
            return
        say(f"{tree.name(self._who)} (pid {pid}) ran 1/{self._factor:g} of the time")
        on = _PERIOD_SECONDS / self._factor
        while tree.alive(pid):
            stopped = tree.below([pid])
            tree.send(stopped, signal.SIGSTOP)
            goes_on = wait(_PERIOD_SECONDS - on)
            tree.send(stopped, signal.SIGCONT)
            if not goes_on or not wait(on):
                return

    def relax(self, command: int) -> None:
        """Let go on whoever is stopped."""
        pid = tree.find(command, self._who) if tree.alive(command) else None
        if pid is not None:
            tree.send(tree.below([pid]), signal.SIGCONT)
