"""Stacks of live processes, as other tools wrote them down, and what is common to many of them."""

from collections.abc import Iterator
from enum import StrEnum

from postmortem.facts.threads import Thread
from postmortem.records import record


@record
class StackDump:
    """The stacks of one process at one moment."""

    tool: str
    """Who wrote it: py-spy, pystack, gdb, faulthandler or postmortem itself."""
    threads: tuple[Thread, ...]
    """In the order of the dump, stacks innermost frame first."""
    running: tuple[int, ...] = ()
    """Threads that the tool saw run, not wait; empty too where the tool does not tell."""
    tells_running: bool = False
    """Whether the tool tells running threads from waiting ones."""
    main: int | None = None
    """Index in `threads` of the main thread; None where the dump does not say."""
    pid: int | None = None
    parent: int | None = None
    """The process that started it, where the dump says."""
    command: str | None = None
    rank: int | None = None
    """Only if the dump itself says so."""
    host: str | None = None
    goes_on: bool = False
    """Who took it watched its job for a while, and saw it go on."""

    @property
    def main_thread(self) -> Thread | None:
        """Return the main thread, or the only one."""
        if self.main is not None:
            return self.threads[self.main]
        return self.threads[0] if len(self.threads) == 1 else None


@record
class RankStack:
    """The stack of one rank's main thread in one dump."""

    label: str
    """The rank as the evidence names it: ``"rank 3"``, ``"node1 rank 3"``, a file's name."""
    rank: int | None
    host: str | None
    where: str
    """The file that the dump is in."""
    thread: Thread
    tool: str = ""
    is_running: bool | None = None
    """None where the tool does not tell."""
    is_stopped: bool = False
    """By a signal; a debugger's stops do not count."""
    goes_on: bool = False
    pid: int | None = None


class Doing(StrEnum):
    """What a stack is about, as far as the other ranks are concerned."""

    COLLECTIVE = "in a collective"
    """It waits for the other ranks: all that a victim does."""
    DEVICE = "waiting for its device"
    """A kernel or copy, which may be a collective that was queued."""
    IMPORT = "importing a module"
    LOCK = "waiting for a lock"
    WAIT = "waiting"
    """For a file, a socket, a child, a time-out."""
    OTHER = "in other code"


@record
class StackClass:
    """Ranks whose main threads stand in the same place."""

    members: tuple[RankStack, ...]
    """Of each rank one; the first stands for all."""
    doing: Doing

    @property
    def thread(self) -> Thread:
        """Return the stack that stands for all."""
        return self.members[0].thread

    @property
    def is_running(self) -> bool | None:
        """Whether any member was seen to run; None where nobody told."""
        told = [one.is_running for one in self.members if one.is_running is not None]
        return any(told) if told else None


@record
class StackClasses:
    """All classes, the smallest first."""

    items: tuple[StackClass, ...]
    moved: tuple[str, ...] = ()
    """Ranks that several dumps show in different places, or who took them saw go on."""
    samples: int = 1
    """Dumps by one tool that there are of every rank."""
    workers: tuple[RankStack, ...] = ()
    """Workers of DataLoaders that are at work on a sample."""

    @property
    def go_on(self) -> bool:
        """Whether each rank goes on, however slowly: nobody is stuck."""
        return all(member.label in self.moved for one in self.items for member in one.members)

    def __iter__(self) -> Iterator[StackClass]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
