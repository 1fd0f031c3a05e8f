"""Process numbers of ranks, from whatever names them: launchers, NCCL, DataLoader, the monitor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from postmortem.facts.exits import LogExit
from postmortem.facts.frames import Flight
from postmortem.facts.rank_logs import LogFailure, RankLogs, RankPid, Remark, Writer

if TYPE_CHECKING:
    from postmortem.readers.ranklogs.build_facts import ReadLog

_MOST = 100_000


def rank_pids(logs: RankLogs) -> tuple[RankPid, ...]:
    """Return every process number that is known of a rank, once for each kind of evidence."""
    who = tuple(logs.writers)
    found: dict[object, RankPid] = {}
    for one in (
        *_of_exits(who, logs.exits),
        *_of_nccl(who, logs.remarks),
        *_of_deepspeed(who, logs),
        *_of_workers(who, logs.failures),
        *_of_flights(logs.flights),
        *logs.said_pids,
    ):
        found.setdefault((one.rank, one.pid, one.own, one.bus is not None), one)
        if len(found) >= _MOST:
            break
    return tuple(found.values())


def _of_exits(who: tuple[Writer, ...], exits: Iterable[LogExit]) -> Iterator[RankPid]:
    hosts = {w.rank: w.host for w in who if w.rank is not None}
    for end in exits:
        if end.rank is not None and end.pid:
            host = end.host or hosts.get(end.rank)
            yield RankPid(end.rank, end.pid, host, f"{end.launcher} says so", end.where)


def _of_nccl(who: tuple[Writer, ...], remarks: Iterable[Remark]) -> Iterator[RankPid]:
    for remark in remarks:
        found, comm = remark.match("nccl-line"), remark.match("nccl-init-done")
        if found is None:
            continue
        rank = who[remark.writer].rank
        if rank is None and comm is not None:
            rank = int(comm["rank"])
        if rank is None:
            continue
        yield RankPid(
            rank,
            int(found["pid"]),
            found["host"],
            "NCCL says so",
            remark.where,
            bus=int(comm["bus"], 16) if comm else None,
        )


def _of_deepspeed(who: tuple[Writer, ...], logs: RankLogs) -> Iterator[RankPid]:
    """Yield what its launcher started on the only host of a job, where local ranks are ranks."""
    told = [(remark, remark.match("deepspeed-spawned")) for remark in logs.remarks]
    found = [(remark, match) for remark, match in told if match is not None]
    ranks = {int(match["local_rank"]) for _, match in found}
    if len(ranks) < max(len(found), logs.world_size or 0):
        return
    for remark, match in found:
        host = who[remark.writer].host
        rank, pid = int(match["local_rank"]), int(match["pid"])
        yield RankPid(rank, pid, host, "DeepSpeed's launcher says so", remark.where)


def _of_workers(who: tuple[Writer, ...], failures: Iterable[LogFailure]) -> Iterator[RankPid]:
    for failure in failures:
        rank = who[failure.writer].rank
        known = (match for said in (failure.said, *failure.causes) for match in said.matches)
        for found in (match for match in known if match.id == "dataloader-workers"):
            for pid in found["pids"].replace(",", " ").split()[:64]:
                yield RankPid(
                    rank,
                    int(pid[:10]),
                    who[failure.writer].host,
                    "a DataLoader worker that it lost",
                    failure.where,
                    own=False,
                )


def _of_flights(flights: Iterable[Flight]) -> Iterator[RankPid]:
    for flight in flights:
        one = flight.recorder
        yield RankPid(one.rank, one.pid, one.host or None, "its monitor says so", flight.path)


def said_pids(read: Iterable[ReadLog], logs: RankLogs) -> Iterator[RankPid]:
    """Yield which processes ranks say that they are, where no later ones took their places."""
    for one in read:
        if logs.attempts > 1 or one.earlier.failed or one.earlier.pids or one.earlier.worked:
            continue
        for rank, pid, line in one.head.pids:
            where = f"{one.file.path}:{line}"
            own = one.file.rank if rank is None else rank
            if own is not None:
                yield RankPid(own, pid, one.file.host, "its own first lines", where)
