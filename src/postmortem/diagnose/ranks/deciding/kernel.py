"""What the kernels of the hosts say of the ranks: joined by pid, by GPU, by host."""

from collections.abc import Iterable

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.causes import SeenByKernel
from postmortem.diagnose.ranks.deciding.case import Case, cited
from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.diagnose.ranks.kernel_matches import KernelMatch, MatchKey
from postmortem.facts.kernel_log import Fault, KernelEvent, KernelKind
from postmortem.facts.rank_logs import RankLogs, RankPid
from postmortem.knowledge.xids import xid
from postmortem.records import replace

_DAY = 86_400.0
_YEAR = 366 * _DAY
_YEARLESS = 3 * _YEAR
_ZONE = 900.0
"""By whose multiples the clocks of two zones differ."""
_GOES_ON = 3.0
"""Seconds that logs must have gone on behind a line, for the two may be of one moment."""
_OF_GPU = (KernelKind.GPU, KernelKind.FABRIC, KernelKind.PCIE)
_OF_HOST = (KernelKind.MACHINE,)
_FEWEST_WAITING = 2
_NO_SUCH_LINK = ("dmesg-link-down", "dmesg-mlx5")
PYTHONS = ("python", "pt_", "torchrun", "accelerate", "deepspeed", "ray::")


def ties(case: Case) -> tuple[KernelMatch, ...]:
    """Return the events of all kernel logs with the ranks that they are about."""
    last = [one.time for one in case.logs.last_lines]
    until = min((time for time in last if time is not None), default=0.0) if all(last) else 0.0
    found = (_tie(case, event) for event in case.logs.kernel.events)
    return tuple(replace(one, outlived=_before(one.event, until)) for one in found)


def _before(event: KernelEvent, until: float) -> bool:
    """Return whether a time is before another one, of which the zone may be another."""
    at = event.time
    if at is None or not until:
        return False
    gap = _in_year(until) - _in_year(at) if at < _YEARLESS else until - at
    near = gap % _ZONE
    return gap > _DAY or (gap > 0 and _GOES_ON < near < _ZONE - _GOES_ON)


def named_by_kernel(case: Case) -> Attribution | None:
    """Return the ranks that a line of a kernel's log names, where their ends fit it."""
    if not case.logs.kernel.events or not case.failed():
        return None
    found = ties(case)
    finders = (_ended, _lost_gpu, _lost_host, _of_the_silent)
    return next((blame for find in finders if (blame := find(case, found)) is not None), None)


def _ended(case: Case, found: tuple[KernelMatch, ...]) -> Attribution | None:
    """Processes that the kernel killed, or saw crash."""
    named = [
        (tie, case.known[rank])
        for tie in found
        for rank in tie.ranks
        if tie.by in (MatchKey.PID, MatchKey.CHILD)
        and rank in case.known
        and _fits(tie, case.known[rank])
    ]
    if not named:
        return _unheard(case, found)
    first = _first(named)
    tie = first[0][0]
    parties = _parties([(s, f"{t.event.words}, pid {t.event.pid}") for t, s in first])
    others = [s for s in case.ranks if s.own and s.rank not in {p.rank for p in parties}]
    sure = all(t.sure for t, _ in first) and not others
    return _blame(parties, tie, sure=sure)


def _unheard(case: Case, found: tuple[KernelMatch, ...]) -> Attribution | None:
    """Return the rank of a process that the kernel ended, of which no other line tells."""
    for tie in found:
        ended = tie.event.kind is KernelKind.OOM_KILL or tie.event.signal is not None
        if tie.by is MatchKey.PID and ended and case.known.keys().isdisjoint(tie.ranks):
            why = f"{tie.event.words}, pid {tie.event.pid}"
            parties = (Suspect(str(one), one, case.hosts.get(one), why) for one in tie.ranks)
            return _blame(tuple(parties), tie, sure=tie.sure)
    return None


def _fits(tie: KernelMatch, standing: RankState) -> bool:
    event, end = tie.event, standing.exit
    if event.kind is KernelKind.BLOCKED:
        return (
            tie.by is MatchKey.PID
            and standing.silent
            and (end is None or standing.ended_by_launcher)
        )
    if event.signal is None and event.kind is not KernelKind.OOM_KILL:
        return False
    if standing.ended_by_launcher and tie.by is MatchKey.PID:
        return False
    if tie.by is MatchKey.CHILD:
        return True
    if end is None:
        return True
    if event.kind is KernelKind.OOM_KILL:
        return end.signal == "SIGKILL"
    return end.signal == event.signal or end.signal in ("SIGABRT", "SIGSEGV", "SIGBUS")


def _first(named: list[tuple[KernelMatch, RankState]]) -> list[tuple[KernelMatch, RankState]]:
    """Return those that come first on each host, with what is alike and at the same time."""
    firsts: list[tuple[KernelMatch, RankState]] = []
    by_host: dict[object, list[tuple[KernelMatch, RankState]]] = {}
    for item in named:
        event = item[0].event
        by_host.setdefault((event.host, event.file), []).append(item)
    for items in by_host.values():
        lead = items[0][0].event
        firsts += [i for i in items if i is items[0] or _alike(lead, i[0].event)]
    return firsts


def _alike(first: KernelEvent, other: KernelEvent) -> bool:
    if first.kind is not other.kind:
        return False
    for a, b in ((first.uptime, other.uptime), (first.time, other.time)):
        if a is not None and b is not None:
            return abs(b - a) <= thresholds.ONE_EVENT_SECONDS
    return False


def _lost_gpu(case: Case, found: tuple[KernelMatch, ...]) -> Attribution | None:
    """Ranks whose GPU, or its link, failed, and who say so."""
    for tie in found:
        event = tie.event
        if not tie.ranks or not _breaks_gpu(event):
            continue
        here = [case.known[rank] for rank in tie.ranks if rank in case.known]
        hit = [
            s for s in here if any(f.said.match("error-of-gpu") for f in (*s.own, *s.about_peers))
        ]
        own = [s for s in hit if any(f.said.match("error-of-gpu") for f in s.own)]
        if tie.by is MatchKey.HOST:
            chosen = own
        else:
            chosen = own or hit or [s for s in here if s.crashed or s.silent]
        if not chosen:
            continue
        parties = _parties([(s, _with_error(event, s)) for s in chosen])
        every = len(chosen) == len(here) and len(here) > 1
        host = event.host or chosen[0].writer.host
        whole = host if every else None
        return _blame(parties, tie, sure=tie.sure, whole_host=whole, said=_error(chosen[0]))
    return None


def _breaks_gpu(event: KernelEvent) -> bool:
    """Return whether a GPU, or its link, failed for good."""
    hardware = event.kind in _OF_GPU and event.fault is Fault.HARDWARE
    return hardware and event.signature not in _NO_SUCH_LINK


def _of_the_silent(case: Case, found: tuple[KernelMatch, ...]) -> Attribution | None:
    """The one rank that is silent while all others wait, if a GPU failed on its host.

    Or the kernel killed a process like it there. Or on a host that no line names: a kernel's log
    that stands below those of the ranks.
    """
    silent = [s for s in case.ranks if s.silent]
    if len(silent) != 1 or len(case.about_peers()) < _FEWEST_WAITING:
        return None
    rank = silent[0].rank
    assert rank is not None
    host = silent[0].writer.host or case.hosts.get(rank)
    for tie in found:
        event = tie.event
        there = rank in tie.ranks or (
            tie.by is MatchKey.NOTHING
            and same_host(event.host, host) is None
            and rank not in _on_other_gpus(case.logs, event)
            and _same_day(case.logs, event, rank)
        )
        if there and (_breaks_gpu(event) or _may_be_killed(case, event, rank)):
            return _blame(_parties([(silent[0], event.words)]), tie, sure=False)
    return None


def _may_be_killed(case: Case, event: KernelEvent, rank: int) -> bool:
    """Return whether a process that was killed for memory may be a rank's: which is not known."""
    like = event.kind is KernelKind.OOM_KILL and (event.process or "").startswith(PYTHONS)
    return like and not any(one.own and one.rank == rank for one in case.logs.pids)


def _with_error(event: KernelEvent, standing: RankState) -> str:
    said = _error(standing)
    return f"{event.words}; it says {said}" if said else event.words


def _error(standing: RankState) -> str:
    said = standing.own or standing.about_peers
    return clip(said[0].said.words, 160) if said else ""


def _lost_host(case: Case, found: tuple[KernelMatch, ...]) -> Attribution | None:
    """Hosts that broke down: their ranks are silent, and the others miss them."""
    for tie in found:
        event = tie.event
        fatal = event.kind in _OF_HOST or event.number == 79 or event.signature == "dmesg-lockup"
        if not fatal or tie.by is not MatchKey.HOST or not event.host or not tie.ranks:
            continue
        here = [case.known[rank] for rank in tie.ranks if rank in case.known]
        elsewhere = [s for s in case.ranks if s not in here]
        if not here or not any(s.about_peers for s in elsewhere):
            continue
        if any(s.own for s in case.ranks) or not all(s.silent for s in here):
            continue
        parties = _parties([(s, f"its host failed: {event.words}") for s in here])
        whole = event.host if len(here) > 1 else None
        return _blame(parties, tie, sure=False, whole_host=whole)
    return None


def silenced(case: Case) -> Attribution | None:
    """Return the start of a host before which all logs had fallen silent at their work."""
    ends = case.logs.last_lines
    times = [one.time for one in ends if one.time is not None]
    over = any(one.ended or one.done or one.stopped for one in ends)
    if not times or over or case.logs.exits or case.logs.jobs:
        return None
    for tie in ties(case):
        event = tie.event
        other = any(same_host(event.host, host) is False for host in _hosts(case.logs))
        if event.signature != "dmesg-boot" or event.time is None or other:
            continue
        if 0 < event.time - max(times) <= thresholds.HOST_STARTS_SECONDS:
            last = max((one for one in ends if one.time), key=lambda one: one.time or 0.0).last
            blame = _blame((), tie, sure=False)
            return replace(blame, evidence=((last.where, clip(last.text, 300)), *blame.evidence))
    return None


def _parties(items: Iterable[tuple[RankState, str]]) -> tuple[Suspect, ...]:
    made: dict[object, Suspect] = {}
    for standing, why in items:
        made.setdefault(standing.rank, standing.party(why, next(iter(standing.own), None)))
    return tuple(made.values())


def _blame(
    parties: tuple[Suspect, ...],
    tie: KernelMatch,
    *,
    sure: bool,
    whole_host: str | None = None,
    said: str = "",
) -> Attribution:
    event = tie.event
    lines = ((event.where, clip(event.text, 300)),)
    return Attribution(
        SeenByKernel(tie, said),
        parties,
        sure=sure,
        evidence=(*lines, *cited(parties))[:8],
        whole_host=whole_host,
    )


def _tie(case: Case, event: KernelEvent) -> KernelMatch:
    logs = case.logs
    ranked = [(one, one.rank) for one in logs.pids if one.rank is not None]
    # An Xid that carries a pid is about that process; all other kinds must name one to be joined.
    for one, rank in ranked:
        if event.pid is None or one.pid != event.pid:
            continue
        same = same_host(event.host, one.host)
        if same is False or not _same_day(logs, event, rank):
            continue
        sure = same is True or len(_hosts(logs)) <= 1
        by = MatchKey.PID if one.own else MatchKey.CHILD
        who = f"pid {one.pid} is that of rank {rank}: {one.how}"
        if not one.own:
            who = f"pid {one.pid} is {one.how.removesuffix(' that it lost')} of rank {rank}"
        return KernelMatch(event, by, (rank,), who, sure)
    bus = _bus(event.device) if event.kind is KernelKind.GPU else None
    for one, rank in ranked:
        if bus is not None and one.bus == bus and same_host(event.host, one.host) is not False:
            sure = same_host(event.host, one.host) is True or len(_hosts(logs)) <= 1
            why = f"GPU {event.device} is that of rank {rank}: NCCL says so"
            return KernelMatch(event, MatchKey.GPU, (rank,), why, sure)
    return _by_host(case, event)


def _by_host(case: Case, event: KernelEvent) -> KernelMatch:
    logs = case.logs
    there: list[int] = []
    others = _on_other_gpus(logs, event)
    alone = len(_hosts(logs)) <= 1
    for standing in case.ranks:
        assert standing.rank is not None
        host = standing.writer.host or (standing.exit.host if standing.exit else None)
        same = same_host(event.host, host or case.hosts.get(standing.rank))
        here = same or (same is None and alone)
        if here and standing.rank not in others and _same_day(logs, event, standing.rank):
            there.append(standing.rank)
    if not there:
        return KernelMatch(event, MatchKey.NOTHING)
    hosts = (*logs.hosts, *case.hosts.values())
    known = event.host is not None and any(same_host(event.host, h) for h in hosts)
    why = f"the same host, {event.host}" if known else "all of them ran on one host"
    return KernelMatch(event, MatchKey.HOST, tuple(there), why, known)


def _on_other_gpus(logs: RankLogs, event: KernelEvent) -> set[int]:
    """Return the ranks that are known to use another GPU than the one that an Xid is about."""
    bus = _bus(event.device) if event.number is not None and event.signature == "xid" else None
    if bus is None or xid(event.number or 0).reach not in ("gpu", "process"):
        return set()
    others = (one.rank for one in logs.pids if one.bus is not None and one.bus != bus)
    return {rank for rank in others if rank is not None}


def _hosts(logs: RankLogs) -> set[str]:
    hosts = {h.partition(".")[0] for h in logs.hosts}
    named = [one.host for one in logs.pids] + [end.host for end in logs.exits]
    hosts |= {host.partition(".")[0] for host in named if host}
    return hosts


def same_host(one: str | None, other: str | None) -> bool | None:
    """Return whether two names are of one host; None where one is missing, or of several."""
    if not one or not other or "localhost" in (one, other) or "[" in other:
        return None
    return one.partition(".")[0].lower() == other.partition(".")[0].lower()


def _same_day(logs: RankLogs, event: KernelEvent, rank: int) -> bool:
    """Return False for a line of another day: pids come again, and old Xids end no new job.

    Clocks may be of different zones, so only what is more than a day apart is another event.
    """
    ends = [e.time for e in logs.exits if e.rank == rank and e.time is not None]
    times = ends or [e.time for e in logs.exits if e.time is not None]
    if event.time is None or not times:
        return True
    return min(apart(event.time, time) for time in times) <= 1.1 * _DAY


def apart(one: float, other: float) -> float:
    """Return the seconds between two times, of which one may lack its year."""
    if one < _YEARLESS or other < _YEARLESS:
        gap = abs(_in_year(one) - _in_year(other))
        return min(gap, 366 * _DAY - gap)
    return abs(one - other)


def _in_year(seconds: float) -> float:
    import time

    day = time.gmtime(seconds)
    leap = day.tm_year % 4 == 0 and (day.tm_year % 100 != 0 or day.tm_year % 400 == 0)
    shift = 0 if leap or day.tm_yday < 60 else 1
    return (day.tm_yday + shift) * _DAY + seconds % _DAY


def _bus(device: str | None) -> int | None:
    """Return a PCI address as NCCL prints it: its hexadecimal digits, function and all."""
    if device is None:
        return None
    digits = device.replace(":", "").replace(".", "")
    if len(device.split(":")[-1]) == 2:  # NVRM leaves the function out
        digits += "0"
    try:
        return int(digits[:16], 16)
    except ValueError:
        return None


def another_namespace(event: KernelEvent, pids: Iterable[RankPid]) -> bool | None:
    """Return whether a kill counts pids otherwise than the ranks do.

    False where the kernel's own table of tasks has a rank's pid; None where it cannot be told.
    """
    known = {one.pid for one in pids}
    if not known or not event.beside:
        return None
    return not known & event.beside
