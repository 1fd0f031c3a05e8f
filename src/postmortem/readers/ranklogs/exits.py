"""How processes ended, each once, with its rank where local ranks tell it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from postmortem.facts.exits import OF_COMMANDS, LogExit
from postmortem.readers.ranklogs.launchers import Launchers
from postmortem.readers.ranklogs.writers import Label, Writers
from postmortem.records import replace


def exits_of(
    labels: Sequence[Label],
    launchers: Mapping[int, Launchers],
    writers: Writers,
    attempt: Callable[[int, int], int | None],
) -> tuple[LogExit, ...]:
    """Return the ends that launchers tell of; both maps are by the position of a label.

    `attempt` is of a position and a line.
    """
    told_of: list[LogExit] = []
    aborting = _aborting(labels, launchers)
    for position, found in launchers.items():
        path = labels[position].file.path
        for told in found.exits:
            end = _whole(told, position, labels, launchers, writers)
            end = replace(end, attempt=attempt(position, end.line))
            if end.launcher == "srun" and end.line > aborting.get(path, end.line):
                end = replace(end, stopped=end.signal in ("SIGTERM", "SIGKILL") and not end.memory)
            told_of.append(end)
    ends: dict[object, LogExit] = {}
    for end in sorted(told_of, key=lambda end: end.launcher in OF_COMMANDS):
        _join(ends, end)
    return tuple(ends.values())


def without_ranks_of_agents(labels: list[Label], launchers: Mapping[int, Launchers]) -> list[Label]:
    """Return the labels, without the rank that a file's name seems to tell where a launcher wrote.

    It is of a node then, or of nothing: that launcher speaks of several ranks.
    """
    shared = {
        labels[position].file.path
        for position, found in launchers.items()
        if _of_several(found, labels[position].file.rank)
    }
    return [
        replace(one, file=replace(one.file, rank=None)) if one.file.path in shared else one
        for one in labels
    ]


def _of_several(found: Launchers, rank: int | None) -> bool:
    """Return whether a launcher speaks of others than a rank, or of several local ranks."""
    told = [end for end in found.exits if end.launcher != "ray"]
    local = [end.local_rank for end in told if end.local_rank is not None]
    others = any(end.rank not in (rank, None) for end in told)
    return others or bool(local and (found.stopped or any(local)))


def _whole(
    end: LogExit,
    position: int,
    labels: Sequence[Label],
    launchers: Mapping[int, Launchers],
    writers: Writers,
) -> LogExit:
    """Return an end with its rank and its writer."""
    if end.launcher == "srun" and writers.tasks_are_nodes:
        end = replace(end, rank=None)
    if end.rank is None and end.local_rank is not None:
        rank = _rank_at(labels[position], end.local_rank, labels, launchers, writers)
        end = replace(end, rank=rank)
    if end.launcher == "kubernetes" and end.rank is None and end.host is not None:
        end = replace(end, rank=_rank_of_pod(end.host, writers))
    if end.launcher == "ray" and end.pid is not None:
        return replace(end, writer=writers.of_process("worker", end.pid, end.host))
    if end.process:
        return replace(end, writer=writers.of_name(end.process))
    return replace(end, writer=writers.index(position))


def _rank_of_pod(pod: str, writers: Writers) -> int | None:
    """Return the rank whose log has the name of a pod, or its end, as people save them.

    Where that is not there, the number in it, if the logs of the others are of the ranks in theirs.
    """
    told = ((Path(w.source).stem, w.rank) for w in writers.writers if w.source)
    stems = {(stem, rank) for stem, rank in told if rank is not None}
    ranks = {rank for stem, rank in stems if stem == pod or pod.endswith(f"-{stem}")}
    if not ranks:
        form, _, number = pod.rpartition("-")
        # Workers are counted behind a master of their own.
        first = any(stem.endswith("-master-0") and rank == 0 for stem, rank in stems)
        like = [(stem, rank) for stem, rank in stems if stem.rpartition("-")[0] == form]
        known = len(like) + first > 1 and all(
            stem == f"{form}-{rank - first}" for stem, rank in like
        )
        ranks = {int(number) + first} if form and known and number.isdecimal() else set()
    return ranks.pop() if len(ranks) == 1 else None


def _join(ends: dict[object, LogExit], end: LogExit) -> None:
    """Add an end; one that was told of before, with or without its process, is the same."""
    if end.launcher in OF_COMMANDS and any(map(end.is_of, ends.values())):
        return  # the shell told of it
    told = (end.rank, end.launcher, end.host, end.attempt, end.process)
    if end.pid and told in ends:
        ends[told] = replace(ends[told], pid=end.pid)
        return
    key: object = (end.rank, end.pid) if end.pid else told
    if end.pid and end.rank is None:
        key = next((k for k, e in ends.items() if e.pid == end.pid), key)
    old = ends.get(key)
    if old is None or (end.blamed and not old.blamed and end.rank is not None):
        ends[key] = end if old is None else replace(end, blamed=True)
    elif old.time is None:
        ends[key] = replace(old, time=end.time)


def _aborting(labels: Sequence[Label], launchers: Mapping[int, Launchers]) -> dict[str, int]:
    """Return, by file, the line from which on Slurm ends all tasks."""
    first: dict[str, int] = {}
    for position, found in launchers.items():
        if found.aborting is not None:
            path = labels[position].file.path
            first[path] = min(found.aborting, first.get(path, found.aborting))
    return first


def _rank_at(
    agent: Label,
    local: int,
    labels: Sequence[Label],
    launchers: Mapping[int, Launchers],
    writers: Writers,
) -> int | None:
    """Return the rank that a local rank of an agent is."""
    for position, found in launchers.items():
        label = labels[position]
        if label.file.path != agent.file.path or label.raw["task"] != agent.raw["task"]:
            continue
        for end in found.exits:
            if end.local_rank == local and end.rank is not None:
                return end.rank
    ranks = {w.rank for w in writers.writers if w.local_rank == local} - {None}
    if len(ranks) == 1:
        return ranks.pop()
    here = not ranks and _first_host(agent.file.path, local, labels, launchers, writers)
    return local if here else None


def _first_host(
    path: str,
    local: int,
    labels: Sequence[Label],
    launchers: Mapping[int, Launchers],
    writers: Writers,
) -> bool:
    """Return whether the ranks that wrote into a file can only be those of the first host.

    Host k of hosts with n ranks has those from k*n on: ranks 1 and 2 are on the first one,
    ranks 5 and 6 may be on the second one of four ranks each.
    """
    agents = [x for x in launchers.values() if any(e.local_rank is not None for e in x.exits)]
    of_lines = {label.raw["rank"] for label in labels if label.file.path == path}
    of_words = {one.rank for one in writers.writers if one.source == path}
    known = [rank for rank in of_lines | of_words if rank is not None]
    if len(agents) != 1 or not known:
        return False
    least, most = min(known), max(known)
    return 2 * least <= most or least <= local
