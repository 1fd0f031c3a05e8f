"""What the watchdogs of NCCL's groups wait for, which ranks they are of, and whom they name."""

from collections.abc import Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import Undecided
from postmortem.diagnose.ranks.deciding.case import Case
from postmortem.facts.signature import Match

_SAME_SIZES = ("ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE")
"""Collectives for which all ranks give as many elements."""


def watched(case: Case) -> set[int]:
    """Return the ranks whose watchdogs wait too, in whatever words: they are not silent."""
    return {rank for rank, _ in of_watchdogs(case)}


def of_watchdogs(case: Case) -> Iterator[tuple[int, int]]:
    """Yield the ranks of which watchdogs write, and which rank of its group each says it is."""
    for remark in case.logs.remarks:
        named = remark.match("pgnccl-rank")
        if named is not None:
            of_group, of_all = int(named["rank"]), case.logs.who(remark.writer).rank
            yield of_group if of_all is None else of_all, of_group


def works_of(case: Case) -> dict[str, dict[int, Match]]:
    """Return in which collective the watchdog of each rank waits, by process group."""
    groups: dict[str, dict[int, Match]] = {}
    for standing in case.about_peers():
        for failure in standing.about_peers:
            work = failure.said.match("pgnccl-work")
            whole = work is not None and not failure.said.message.endswith(work["op"])
            if work and whole and standing.rank is not None:  # else the line is cut in the name
                group = failure.match("pgnccl-group")
                name = group["group"] if group else ""
                groups.setdefault(name, {}).setdefault(standing.rank, work)
    plain = {rank: work_words(work) for rank, work in groups.get("", {}).items()}
    named = [(rank, work_words(w)) for name in groups if name for rank, w in groups[name].items()]
    if len(groups) > 2 and plain.items() <= set(named):  # once more, and of which group each is
        del groups[""]
    return {
        name: found
        for name, found in groups.items()
        if not name  # else what some of them said once more, with the name of their group
        or len(found) >= len(plain)
        or any(plain.get(rank) != work_words(work) for rank, work in found.items())
    }


def size_of(work: Match) -> str | None:
    """Return of how many elements a collective is to which all ranks give as many."""
    return work["size"] if work["op"] in _SAME_SIZES else None


def work_words(work: Match) -> str:
    """Return in words which collective it is."""
    words = f"{work['op']} number {work['number']}"
    size = size_of(work)
    return f"{words} of {size} elements" if size else words


def named_by_peers(case: Case) -> Attribution | None:
    """Return whom others name, without an error: a rank that timed out first, or was waited for.

    Or the host whose connections closed.
    """
    first = _named(case, "pgnccl-dump-signal", doubt=Doubt.NAMED)
    awaited = _named(case, "peer-remote-rank", "nccl-ras-rank", doubt=Doubt.AWAITED)
    return first or awaited or _lost_host(case)


def _lost_host(case: Case) -> Attribution | None:
    """Return the one host that lost connections name, and of which there is no line.

    Those that are here wrote why they closed theirs. An address may be of any of them, and where
    a warning names whose link failed, that says more.
    """
    lost = {
        found["address"].partition(".")[0]: one
        for one in reversed(case.logs.remarks)
        if one.match("nccl-socket-closed") and (found := one.match("nccl-peer"))
    }
    here = {s.writer.host or (s.exit and s.exit.host) for s in case.about_peers()}
    known = {host.partition(".")[0] for host in (*here, *case.logs.hosts) if host}
    absent = [host for host in lost if host not in known]
    link = case.logs.nccl is not None and case.logs.nccl.peers
    named = all(host[:1].isalpha() for host in lost)
    if not known or None in here or len(absent) != 1 or link or not named:
        return None
    host, line = absent[0], lost[absent[0]]
    party = Suspect(host, None, host, "others say that it closed its connections")
    evidence = ((line.where, f"names {host}: {clip(line.text.strip(), 300)}"),)
    return Attribution(Undecided(Doubt.HOST), candidates=(party,), evidence=evidence)


def _named(case: Case, *messages: str, doubt: Doubt) -> Attribution | None:
    named = [(one, one.match(*messages)) for one in reversed(case.logs.remarks)]
    told = {int(match["rank"]): one for one, match in named if match is not None and match["rank"]}
    absent = [rank for rank in told if rank not in case.known or case.known[rank].silent]
    if len(absent) != 1:  # of several who were first, none is known to be
        return None
    rank, line = absent[0], told[absent[0]]
    why = "its collective timed out first" if doubt is Doubt.NAMED else "they waited for it"
    party = Suspect(str(rank), rank, None, f"others say that {why}")
    evidence = ((line.where, f"names rank {rank}: {clip(line.text.strip(), 300)}"),)
    return Attribution(Undecided(doubt), candidates=(party,), evidence=evidence)
