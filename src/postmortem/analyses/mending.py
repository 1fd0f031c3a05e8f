"""What `postmortem doctor --fix` changes: only what decides whether a crash leaves a core.

Limits belong to processes, so those of the shell that called are changed, for what it starts from
now on. What takes rights away from others, installs something or mounts is left to people.
"""

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

from postmortem.facts.machine import Machine
from postmortem.readers.corepattern import CORE_PATTERN
from postmortem.readers.live.status import text_or_none
from postmortem.records import record

_SHELLS = frozenset(("sh", "bash", "zsh", "fish", "dash", "ksh", "tcsh"))
_FILTER = 0x33
_PATTERN = "core.%e.%p.%t"


@record
class Step:
    """One thing that was changed, or that could not be."""

    name: str
    """Of the check that it mends."""
    what: str
    """``"soft limit 0 -> unlimited, for bash (pid 4711)"``."""
    problem: str | None = None
    """Why it was not done."""


def mend(machine: Machine) -> list[Step]:
    """Change what may be changed for better evidence, and return each step in its order."""
    return [_done(*plan) for plan in _plans(machine)]


def _plans(machine: Machine) -> Iterator[tuple[str, str, Callable[[], object]]]:
    shell = os.getppid()
    name = (text_or_none(f"/proc/{shell}/comm") or "").strip()
    whose = f"for {name} (pid {shell}) and what it starts" if name in _SHELLS else "for this run"
    pids = (os.getpid(), shell) if name in _SHELLS else (os.getpid(),)
    soft, hard = machine.core_limit_soft, machine.core_limit_hard
    if soft is not None and soft != hard:
        limits = " -> ".join("unlimited" if one is None else str(one) for one in (soft, hard))
        yield "core limit", f"soft limit {limits}, {whose}", lambda: _raise_limits(pids)
    mask = machine.coredump_filter
    if mask is not None and mask & _FILTER != _FILTER:
        wanted = mask | _FILTER
        words = f"{mask:#x} -> {wanted:#x}, {whose}"
        yield "coredump_filter", words, lambda: _set_filters(pids, wanted)
    text = machine.core_pattern.text
    taker = machine.core_destination.handler
    shared = taker == "file" and machine.core_pattern.is_one_name
    if text is not None and (taker == "none" or shared):
        words = f"{text!r} -> {_PATTERN!r}, until the next boot; back: sysctl -w "
        words += f"kernel.core_pattern='{text}'"
        yield "core_pattern", words, lambda: CORE_PATTERN.write_text(f"{_PATTERN}\n")


def _done(name: str, what: str, change: Callable[[], object]) -> Step:
    try:
        change()
    except (OSError, ValueError) as error:
        return Step(name, what, getattr(error, "strerror", None) or str(error))
    return Step(name, what)


def _raise_limits(pids: tuple[int, ...]) -> None:
    for pid in pids:
        _, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
        resource.prlimit(pid, resource.RLIMIT_CORE, (hard, hard))


def _set_filters(pids: tuple[int, ...], mask: int) -> None:
    for pid in pids:
        Path(f"/proc/{pid}/coredump_filter").write_text(f"{mask:#x}\n")
