"""What a child that reads evidence may use: by the size of what it reads, and by what is free."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from postmortem import underway
from postmortem.readers.child import read_from_kernel
from postmortem.records import record
from postmortem.text import parse_size

MOST_MEMORY = 4 << 30
PATIENCE_SECONDS = 20.0
CPU_SECONDS = 600.0
_LEAST_MEMORY = 256 << 20
_BYTES_EACH = 8
"""Of memory, for each byte of a file that is named: tables of all calls grow with the log."""
_CPU_SECONDS_EACH = 1e-6
_PACKED = 32
"""How many times more than it stores a file system may say that a file holds."""


@record
class Limits:
    """What a child may use; None is no limit."""

    memory_bytes: int | None = MOST_MEMORY
    """Of data: what it maps of files does not count (setrlimit(2), RLIMIT_DATA)."""
    cpu_seconds: float | None = CPU_SECONDS
    patience_seconds: float | None = PATIENCE_SECONDS
    """How long it may do nothing at all while it reads a file."""
    fewer_rights: bool = True
    """No program that it starts gains rights (PR_SET_NO_NEW_PRIVS)."""
    no_tcp: bool = True
    """With `fewer_rights`: no TCP, nor what only a tracer may read of others (landlock(7))."""


def limit(limits: Limits) -> None:
    """In a child: take limits upon this process, and tell them to who watches it."""
    from postmortem import _native

    if limits.fewer_rights:
        _native.renounce_rights(limits.no_tcp)
    seconds = limits.cpu_seconds
    underway.limited(limits.memory_bytes, seconds, limits.patience_seconds)
    # A little more than is looked for: should who watches be too busy to look.
    _native.lower_limits(limits.memory_bytes, None if seconds is None else int(seconds) + 5)


def limits_for(
    names: Iterable[str],
    complain: Callable[[str], None],
    *,
    live: bool = False,
    processes: bool = False,
) -> Limits:
    """Return the limits of a child that reads these files; `complain` is told of a wrong variable.

    `live`: it reads processes; `processes`: it reads files that only those may who may trace a
    process.
    """
    size = sum(map(_size, names))
    memory = _asked_memory(complain)
    if memory is None:
        wanted = MOST_MEMORY + _BYTES_EACH * size
        memory = max(_LEAST_MEMORY, min(wanted, available_memory() // 2))
    patience = _asked_patience(complain)
    if live:  # it sleeps between two looks, has deadlines of its own, and needs all rights
        return Limits(memory, None, None, fewer_rights=False)
    return Limits(memory, CPU_SECONDS + _CPU_SECONDS_EACH * size, patience, no_tcp=not processes)


def _size(name: str) -> int:
    """Return the bytes of a file; one with holes counts by what it holds, packed at that."""
    try:
        status = os.stat(name)  # noqa: PTH116  a name may hold any bytes
        return min(status.st_size, 512 * _PACKED * status.st_blocks)
    except (OSError, ValueError):
        return 0


def _asked_memory(complain: Callable[[str], None]) -> int | None:
    text = os.environ.get("POSTMORTEM_MEMORY", "").strip()
    try:
        return parse_size(text, least=1) if text else None
    except (ValueError, OverflowError):
        complain(f"POSTMORTEM_MEMORY={text!r} is not a size such as 8G")
        return None


def _asked_patience(complain: Callable[[str], None]) -> float:
    text = os.environ.get("POSTMORTEM_PATIENCE", "")
    try:
        seconds = float(text) if text else PATIENCE_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        complain(f"POSTMORTEM_PATIENCE={text!r} is not a number of seconds")
        return PATIENCE_SECONDS
    return seconds


def available_memory() -> int:
    """Return how much memory can be had now: of the machine, and of our control group."""
    found = [1 << 62]
    with suppress(OSError, ValueError, IndexError):
        words = read_from_kernel("/proc/meminfo").partition(b"MemAvailable:")[2].split()
        found.append(int(words[0]) << 10)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        with suppress(OSError, ValueError):  # "max"
            found.append(max(0, int(read_from_kernel(limit)) - int(read_from_kernel(used))))
    return min(found)
