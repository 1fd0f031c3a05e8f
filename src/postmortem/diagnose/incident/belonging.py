"""Whether evidence is of this job: an old core in the folder must not be blamed for today."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from postmortem.diagnose.incident.common import Document, root_of
from postmortem.diagnose.incident.events import ENDED_BY_KERNEL, Event, EventType
from postmortem.facts.crash import CRASH_SIGNALS
from postmortem.records import record, replace

_MOST_ABOVE = 8
"""Generations between a rank and its descendants that are followed."""


@record
class Job:
    """What the logs know of the job's processes."""

    own: Mapping[int, frozenset[int]]
    """Rank to the pids that it had, over all attempts and hosts."""
    pids: frozenset[int]
    hosts: frozenset[str]
    world_size: int | None
    parents: Mapping[int, int]
    """Parents of processes, as far as any evidence tells them."""
    recorded: frozenset[int] = frozenset()
    """Processes of system-call logs of the job that follow all its children, if none crashed."""
    unknown: frozenset[int] = frozenset()
    """Ranks that the logs name, and of which no process is known."""
    earlier: frozenset[int] = frozenset()
    """Processes of runs that stand in the logs before the one which is judged."""

    silent: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    """Ranks by their host, by its short name: those that are not victims of others."""

    def ranks_of(self, pid: int | None) -> tuple[int, ...]:
        """Return the rank that a process was."""
        return tuple(rank for rank, pids in sorted(self.own.items()) if pid in pids)

    def ranks_above(self, pid: int | None) -> tuple[int, ...]:
        """Return the rank that started a process, at whatever distance."""
        for _ in range(_MOST_ABOVE):
            pid = self.parents.get(pid) if pid else None
            found = self.ranks_of(pid)
            if found:
                return found
        return ()


def job_of(documents: Iterable[Document]) -> Job | None:
    """Return what reports on logs tell of the job; None without any."""
    documents = list(documents)
    logs = [one for one in documents if one["kind"] == "logs"]
    if not logs:
        return None
    own: dict[int, set[int]] = {}
    pids: set[int] = set()
    hosts: set[str] = set()
    sizes: list[int] = []
    earlier: set[int] = set()
    ranks: set[int] = set()
    for one in logs:
        rows = (*one.get("victims", ()), *one.get("candidates", ()))
        ranks |= {row["rank"] for row in rows if row["rank"] is not None}
        earlier |= set(one.get("earlier_pids", ()))
        hosts |= {str(host) for host in one.get("hosts", ())}
        sizes += [one["world_size"]] if one.get("world_size") else []
        for row in one.get("pids", ()):
            pids.add(row["pid"])
            if row["own"]:
                own.setdefault(row["rank"], set()).add(row["pid"])
    lost = {row["rank"] for one in logs for row in one.get("victims", ())}
    silent: dict[str, set[int]] = {}
    for row in (row for one in logs for row in one.get("pids", ())):
        if row["own"] and row["host"] and row["rank"] not in lost:
            silent.setdefault(_short(row["host"]), set()).add(row["rank"])
    return Job(
        {rank: frozenset(found) for rank, found in own.items()},
        frozenset(pids),
        frozenset(hosts),
        max(sizes, default=None),
        dict(_parents(documents)),
        _recorded(documents, pids, calm=not any(one.get("outcome") == "failed" for one in logs)),
        frozenset(ranks.difference(own)),
        frozenset(earlier - pids),
        {host: tuple(sorted(found)) for host, found in silent.items()},
    )


def _recorded(documents: Iterable[Document], pids: set[int], *, calm: bool) -> frozenset[int]:
    """Return the processes that system-call logs of the job follow; none where one crashed.

    A kernel may count a crashed one otherwise than its container does.
    """
    rows = [row for one in documents if one["kind"] == "strace" for row in one["processes"]]
    found = frozenset(row["pid"] for row in rows)
    ends = [row["exit"] for row in rows if row["recorded"] and not row["thread_of"]]
    crashed = any(end is not None and end["signal"] in CRASH_SIGNALS for end in ends)
    whole = bool(ends) and all(end is not None for end in ends)
    return found if whole and not crashed and (calm or found & pids) else frozenset()


def _parents(documents: Iterable[Document]) -> Iterator[tuple[int, int]]:
    for one in documents:
        for row in (*(one.get("processes") or ()), one.get("process") or {}):
            if row.get("pid") and row.get("ppid"):
                yield row["pid"], row["ppid"]


def judged(event: Event, document: Document, job: Job | None) -> tuple[Event, str | None]:
    """Return the event with whether it belongs to the job, and the reason where it does not."""
    if job is None or event.belongs is not None:
        return event, None
    above = job.ranks_above(event.pid)
    if event.type is EventType.NODE_DOWN:  # one of a whole cluster's
        ranks = job.silent.get(_short(event.host or ""), ())
        return replace(event, ranks=ranks, belongs=True if ranks else None), None
    if event.source == "logs":  # a kernel's line about a process, joined by the host at most
        return _of_kernel(event, job, above), None
    process = document.get("process") or {}
    parent = process.get("ppid")
    if above and not job.ranks_of(event.pid):
        name = str(process.get("executable") or "").rpartition("/")[2]
        role = event.role or f"child {name}".rstrip()
        child = event.role is None or event.child
        return replace(event, belongs=True, ranks=above, role=role, child=child), None
    if event.pid in job.pids or (parent and parent in job.pids):
        return replace(event, belongs=True, ranks=event.ranks or job.ranks_of(event.pid)), None
    if event.pid in job.earlier or (event.role and parent in job.earlier):
        return replace(event, belongs=False), "it is of an earlier run, which a log has above"
    recorded = {row["pid"] for row in document.get("processes") or ()}
    apart = bool(recorded) and not recorded & job.pids
    if document["kind"] == "strace" and job.own and apart and not job.unknown:
        return replace(event, belongs=False), "none of its processes is one of this job's"
    size = process.get("world_size")
    if size is not None and job.world_size is not None and size != job.world_size:
        return (
            replace(event, belongs=False),
            f"it is of a job of {size} ranks, these logs are of {job.world_size}",
        )
    if event.host and job.hosts and not _is_among(event.host, job.hosts):
        return replace(event, belongs=False), f"it is of host {event.host}, which no log names"
    own = next((job.own[rank] for rank in event.ranks if rank in job.own), None)
    pid, of = (event.pid, "it is of") if event.role is None else (parent, "its parent was")
    if own and pid and pid not in own:
        known = ", ".join(str(one) for one in sorted(own)[:4])
        why = f"{of} pid {pid}; rank {event.ranks[0]} of this job was pid {known}"
        return replace(event, belongs=False), why
    return event, None


def _of_kernel(event: Event, job: Job, above: tuple[int, ...]) -> Event:
    """Return the event with the rank whose child the process was, or of nobody if it is known."""
    if event.pid is None or event.type not in (EventType.KILLED_FOR_MEMORY, EventType.CRASHED):
        return event
    if above:
        return replace(event, belongs=True, ranks=above, role="child", child=True)
    crashed = event.type is EventType.CRASHED
    foreign = crashed and bool(job.recorded) and event.pid not in job.recorded | job.pids
    return replace(event, ranks=(), belongs=False if foreign else None)


def standing_alone(
    events: Sequence[Event], linked: set[int], documents: Iterable[Document]
) -> tuple[int, ...]:
    """Return the events of processes that nothing joins with a job that other evidence tells of.

    Also what failed in a process that ended with 0, where the logs tell of no failure, and what the
    kernel says that ended nobody, where there is nothing else of a job.
    """
    told = any(event.belongs for event in events)
    logs = [one for one in documents if one["kind"] == "logs"]
    calm = bool(logs) and not any(one.get("outcome") == "failed" for one in logs)
    kernel = calm and not any(one.get("lines") or root_of(one) for one in logs)

    def is_alone(event: Event) -> bool:
        nobody = kernel and event.source == "logs" and event.type not in ENDED_BY_KERNEL
        return (event.belongs is None and (told or nobody)) or (calm and event.survived)

    return tuple(i for i, event in enumerate(events) if i not in linked and is_alone(event))


def _is_among(host: str, hosts: frozenset[str]) -> bool:
    return _short(host) in map(_short, hosts)


def _short(host: str) -> str:
    return host.partition(".")[0]
