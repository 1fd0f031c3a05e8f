"""The processes of a command: which of them is a rank, and the end of all of them."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping

from postmortem.emulate.namespaces import links
from postmortem.readers.launcher import find_placement
from postmortem.readers.live.status import all_pids, descendants, read_environment, stat_fields

MARK = "POSTMORTEM_EMULATE"
_END_SECONDS = 10.0


def name(who: int | None) -> str:
    """Return how somebody is called in a line."""
    return "the command" if who is None else f"rank {who}"


def below(roots: Iterable[int]) -> list[int]:
    """Return processes and all that descend from them, parents first."""
    roots = dict.fromkeys(roots)
    return [*roots, *descendants(roots)]


def find(command: int, who: int | None) -> int | None:
    """Return the process that is meant: of a rank the topmost one. None: it is not there yet."""
    if who is None:
        return command
    ranks = {pid: find_placement(read_environment(pid) or {}).rank for pid in below([command])}
    if set(ranks.values()) - {None, ranks[command]}:
        del ranks[command]  # a launcher, which has a rank of its own by chance
    return next((pid for pid, rank in ranks.items() if rank == who), None)


def alive(pid: int) -> bool:
    """Return whether a process runs: a zombie does not."""
    stat = stat_fields(f"/proc/{pid}/stat")
    return stat is not None and stat[0] not in ("Z", "X")


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to all that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end_all(
    roots: Iterable[int], mark: str, own: Mapping[str, str], without: Iterable[int]
) -> None:
    """Kill processes, all that descend from them, and those that tell by a mark to be of them.

    `own` are the namespaces that were made for them: who is in one is of them, too. They are
    stopped first, so that none is born meanwhile.
    """
    spared, roots = {*without, os.getpid()}, list(roots)
    until = time.monotonic() + _END_SECONDS
    while time.monotonic() < until:
        stopped: set[int] = set()
        while True:
            found = {*below(roots), *_marked(mark, own)} - spared - stopped
            found = {pid for pid in found if alive(pid)}
            if not found:
                break
            send(found, signal.SIGSTOP)
            stopped |= found
        if not stopped:
            return
        send(stopped, signal.SIGKILL)
        time.sleep(0.02)


def _marked(mark: str, own: Mapping[str, str]) -> list[int]:
    return [pid for pid in all_pids() if _is_inside(pid, own) or _has_mark(pid, mark)]


def _is_inside(pid: int, own: Mapping[str, str]) -> bool:
    theirs = links(pid) if own else {}
    return any(theirs.get(name) == link for name, link in own.items())


def _has_mark(pid: int, mark: str) -> bool:
    return (read_environment(pid) or {}).get(MARK) == mark
