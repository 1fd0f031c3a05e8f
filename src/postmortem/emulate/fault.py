"""What a fault is: how it is prepared, what it does while the command runs, how it is undone."""

from collections.abc import Callable, Mapping
from typing import Protocol

from postmortem.errors import Refusal


class CannotEmulate(Refusal):
    """This machine, or this user, has no way to make the fault; the command was not started."""


class Wait(Protocol):
    """Sleeps; returns False when the command is over and the fault has to end."""

    def __call__(self, seconds: float) -> bool: ...


Say = Callable[[str], None]
"""Tells, once it has happened, what was done; for the line at the end."""


class Fault:
    """One fault; a kind overrides what it needs."""

    acts = False
    """Whether `act` does something while the command runs."""
    limits: Mapping[int, tuple[int, int]] = {}
    """Limits of resources for the command, by their number (setrlimit(2)): soft and hard."""
    cgroup: str | None = None
    """A control group that the command is put into."""
    prefix: tuple[str, ...] = ()
    """What is put before the command."""
    variables: Mapping[str, str] = {}
    """What is set in the command's environment."""
    happened = ""
    """What is said at the end; where it is empty the fault tells itself whether it happened."""
    missed = "the command ended before"
    """Why it may not have happened."""

    def enter(self) -> None:
        """Prepare it, in our own process; raises CannotEmulate, and has changed nothing then.

        What is changed is seen by this process and its children alone, and ends with them.
        """

    def act(self, command: int, wait: Wait, say: Say) -> None:
        """Do what is done while the command runs, in a process of its own."""

    def told(self) -> list[str]:
        """Return what is known of it when the command is over, beside what `act` said."""
        return []

    def relax(self, command: int) -> None:
        """Undo what `act` may have left of the command when it was killed."""

    def undo(self) -> None:
        """Remove what outlives processes, after the last of them."""
