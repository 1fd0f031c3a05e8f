"""Process numbers of ranks, from whatever names them: launchers, NCCL, DataLoader, the monitor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from postmortem.facts.frames import Flight
from postmortem.facts.rank_logs import LogExit, LogFailure, RankPid, Remark, Writer
from postmortem.patterns import Pattern

# host:pid:tid [device] NCCL INFO text (src/debug.cc)
_NCCL = Pattern(r"(?P<host>[\w.-]+):(?P<pid>\d{1,10}):\d+ \[\d+\] NCCL ")
_COMM = Pattern(
    r"\brank (?P<rank>\d{1,7}) nranks \d+ .*?\bbusId (?P<bus>[0-9a-f]{1,16})\b.*Init COMPLETE"
)
# torch/utils/data/dataloader.py
_WORKER = Pattern(r"DataLoader worker \(pid(?:\(s\))? (?P<pids>\d[\d, ]{0,200})\)")
_MOST = 100_000


def rank_pids(
    writers: Iterable[Writer],
    exits: Iterable[LogExit],
    failures: Iterable[LogFailure],
    remarks: Iterable[Remark],
    flights: Iterable[Flight] = (),
) -> tuple[RankPid, ...]:
    """Return every process number that is known of a rank, once for each kind of evidence."""
    who = tuple(writers)
    found: dict[object, RankPid] = {}
    for one in (
        *_of_exits(who, exits),
        *_of_nccl(who, remarks),
        *_of_workers(who, failures),
        *_of_flights(flights),
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
            where = f"{end.file}:{end.line}"
            yield RankPid(end.rank, end.pid, host, f"{end.launcher} says so", where)


def _of_nccl(who: tuple[Writer, ...], remarks: Iterable[Remark]) -> Iterator[RankPid]:
    for remark in remarks:
        found = _NCCL.search(remark.text) if " NCCL " in remark.text else None
        if found is None:
            continue
        comm = _COMM.search(remark.text)
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
            f"{remark.file}:{remark.line}",
            bus=int(comm["bus"], 16) if comm else None,
        )


def _of_workers(who: tuple[Writer, ...], failures: Iterable[LogFailure]) -> Iterator[RankPid]:
    for failure in failures:
        rank = who[failure.writer].rank
        if rank is None or "DataLoader worker" not in failure.text + failure.said.message:
            continue
        for found in _WORKER.finditer(f"{failure.said.message}\n{failure.text}"):
            for pid in found["pids"].replace(",", " ").split()[:64]:
                yield RankPid(
                    rank,
                    int(pid[:10]),
                    who[failure.writer].host,
                    "a DataLoader worker that it lost",
                    f"{failure.file}:{failure.line}",
                    own=False,
                )


def _of_flights(flights: Iterable[Flight]) -> Iterator[RankPid]:
    for flight in flights:
        one = flight.recorder
        yield RankPid(one.rank, one.pid, one.host or None, "its monitor says so", flight.path)
