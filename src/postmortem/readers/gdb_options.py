"""How stacks are to be made, and what comes of it."""

from postmortem.facts.source import Problem
from postmortem.facts.threads import Threads
from postmortem.records import record


@record
class GdbOptions:
    """How gdb is to be used."""

    path: str | None = None
    """None: $POSTMORTEM_GDB, PATH, the wheel, in this order."""
    always: bool = False
    """Ask gdb for all stacks (--engine gdb), not only where it can add lines."""
    with_locals: bool = False
    values: bool = False
    """Ask for local variables too, as far as the time that gdb has anyway goes."""
    tid: int | None = None
    sysroot: str | None = None
    debuginfod: bool = False
    deadline_seconds: float | None = None
    """None: as long as it is worth, which is less where nobody asked for gdb."""


@record
class MergedThreads:
    """Threads with the frames of both sources, and how they came about."""

    threads: Threads
    engine: str
    """What a reader is told: ``"native stacks, lines by gdb 13.1"``."""
    instruction_text: str | None = None
    problems: tuple[Problem, ...] = ()
