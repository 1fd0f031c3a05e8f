"""When all errors are about peers: who is named, who left early, who is missing from the chorus."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import Doubt, NamedBy
from postmortem.diagnose.ranks.causes import (
    LeftEarly,
    NamedMissing,
    SaidLast,
    SilentAlone,
    ThreadDied,
    Undecided,
)
from postmortem.diagnose.ranks.deciding.case import (
    MOST_CANDIDATES,
    Case,
    cited,
    cited_line,
    party_of,
)
from postmortem.diagnose.ranks.deciding.ends import killed_alone
from postmortem.diagnose.ranks.deciding.hung import stood
from postmortem.diagnose.ranks.deciding.last_words import warned_itself, whole_above
from postmortem.diagnose.ranks.deciding.network import network_broke
from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.diagnose.ranks.deciding.sites import (
    not_among_the_late,
    odd_site,
    odd_work,
    timed_out,
)
from postmortem.diagnose.ranks.deciding.watchdogs import named_by_peers, of_watchdogs, watched
from postmortem.facts.rank_logs import Remark
from postmortem.records import replace


def named_by_others(case: Case) -> Attribution | None:
    """Return the ranks that a monitored barrier or a watchdog names as missing or behind."""
    said: list[tuple[int, str, str]] = []
    for standing in case.all:
        for failure in standing.about_peers:
            found = failure.first_said.match("mon-barrier-named")
            if found:
                where, text = failure.where, failure.first_said.message
                names = found["ranks"].split(", ")
                said += [(int(name), where, clip(text, 300)) for name in names]
    for remark in case.logs.remarks:
        late = remark.match("pgnccl-desync-late")
        if late:
            said.append((int(late["rank"]), remark.where, clip(remark.text, 300)))
        stalled = remark.match("horovod-missing")
        if stalled and not _worked_on(case, remark):
            names = stalled["ranks"].split(",")
            said += [(int(name), remark.where, clip(remark.text, 300)) for name in names]
    by = NamedBy.BARRIER
    if not said:
        said = [*_not_ready(case), *_named_below(case, "jax-barrier-late", "horovod-missing-below")]
    if not said:
        said = list(_named_below(case, "jax-tasks-silent"))
        by = NamedBy.HEARTBEAT
    if not said:
        return _behind(case)
    ranks = list(dict.fromkeys(rank for rank, _, _ in said))
    if len(ranks) * 2 > max(case.world, max(ranks) + 1, len(ranks) + 1):  # others named them
        return None
    first = tuple(party_of(case, rank, "named as missing") for rank in ranks)
    if len(first) == 1 and (killed := killed_alone(case, first[0])) is not None:
        return killed
    evidence = tuple(dict.fromkeys((where, text) for _, where, text in said))[:6]
    return Attribution(NamedMissing(by), first, sure=len(ranks) == 1, evidence=evidence)


def _not_ready(case: Case) -> Iterator[tuple[int, str, str]]:
    """Yield the ranks below the last one that old Horovod does not list as ready, and where."""
    for remark in case.logs.remarks:
        ready = remark.match("horovod-ready")
        if ready and not _worked_on(case, remark):
            came = {int(name) for name in ready["ranks"].split(",")}
            for rank in {*range(max(came))} - came:
                yield rank, remark.where, clip(remark.text, 300)


def _named_below(case: Case, *heads: str) -> Iterator[tuple[int, str, str]]:
    """Yield the tasks that JAX's coordinator, or Horovod, names on the lines below, and where.

    Also those that it says by themselves to be silent, where that is asked.
    """
    alone = ["jax-task-silent"] if "jax-tasks-silent" in heads else []
    below: dict[str, int] = {}
    for remark in case.logs.remarks:
        named = [*alone, *_BELOW] if below.get(remark.file) == remark.line else alone
        found = remark.match(*named) if named else None
        if found:
            yield int(found["rank"].partition(":")[0]), remark.where, clip(remark.text, 300)
        head = remark.match(*heads)
        if found or (head and head["barrier"] != _START and not _worked_on(case, remark)):
            below[remark.file] = remark.line + 1


def _worked_on(case: Case, remark: Remark) -> bool:
    """Return whether somebody tells of work behind a line: what was waited for has come."""
    return any(o.worked > remark.line for o in case.logs.last_lines if o.last.file == remark.file)


_BELOW = ("jax-task-absent", "horovod-row")
_START = "PjRT_Client_Connect"
"""JAX's barrier at the start of a job: who does not come to it has never joined."""


def _behind(case: Case) -> Attribution | None:
    """Return the ranks whose watchdog says that they enqueued less than the others."""
    groups: dict[str, dict[int, tuple[int, str, str]]] = {}
    for remark in case.logs.remarks:
        found = remark.match("pgnccl-enqueued")
        if found:
            text = clip(remark.text, 300)
            work = groups.setdefault(found["group"], {})
            work.setdefault(int(found["rank"]), (int(found["work"]), remark.where, text))
    for work in sorted(groups.values(), key=len, reverse=True):
        most = Counter(value for value, _, _ in work.values()).most_common(1)[0]
        late = [rank for rank, (value, _, _) in sorted(work.items()) if value < most[0]]
        if late and 2 * most[1] > len(work):
            first = tuple(
                party_of(case, rank, f"enqueued {work[rank][0]} of {most[0]}") for rank in late
            )
            evidence = tuple(work[rank][1:] for rank in late[:6])
            return Attribution(NamedMissing(NamedBy.ENQUEUED), first, evidence=evidence)
    return None


def left_early(case: Case) -> Attribution | None:
    """Return ranks that ended well while others still needed them."""
    waiting = case.about_peers()
    over = [s for s in case.ranks if s.silent and s.exit and s.exit.code == 0]
    if waiting and over and 2 * len(over) < case.world:
        parties = tuple(s.party("it ended with 0") for s in over)
        return Attribution(LeftEarly(), parties, evidence=(*cited(parties), *_chorus(waiting)))
    done = {case.logs.who(one.writer): one.ended for one in case.logs.last_lines if one.ended}
    said = [(s, done[s.writer]) for s in case.ranks if s.silent and s.writer in done]
    if waiting and said and not case.logs.exits and 2 * len(said) < case.world:
        parties = tuple(s.party("it came to its end, while others waited for it") for s, _ in said)
        shown = tuple(cited_line(line) for _, line in said[:3])
        return Attribution(LeftEarly(told=True), parties, evidence=(*shown, *_chorus(waiting)))
    # One srun lists the tasks of all hosts; torchrun those of its own.
    by_srun = any(e.launcher == "srun" and e.rank is not None for e in case.logs.exits)
    if not waiting or not (case.summarised or by_srun):
        return None
    if any(s.exit is None and not s.survived for s in waiting):
        return None  # who failed by its own words is in no list either: a host's is missing
    # torchrun writes its list when all have ended; srun says nothing of a task that still runs.
    if by_srun and 2 * sum(map(timed_out, waiting)) > len(waiting):
        return None
    ended = {e.rank for e in case.logs.exits if e.rank is not None}
    several = len(case.logs.hosts) > 1 and not by_srun
    agents = {e.host for e in case.logs.exits if e.host} if several else set()
    if case.logs.stopped_pids - {e.pid for e in case.logs.exits}:
        return None  # torchrun ended one that still ran
    count, gone = case.without([*ended, *(r for r, s in case.known.items() if not s.silent)])
    if not count or agents or 2 * count >= case.world:
        return None
    if several and not _all_summarised(case):
        return None
    parties = tuple(
        party_of(case, rank, "no launcher lists it as failed: it ended with 0") for rank in gone
    )
    return Attribution(LeftEarly(), parties, evidence=_chorus(waiting))


def _all_summarised(case: Case) -> bool:
    """Whether every host's launcher wrote which of its ranks failed."""
    told = {e.file for e in case.logs.exits if e.launcher == "torchrun"}
    told_writers = {e.writer for e in case.logs.exits if e.launcher == "torchrun"}
    return max(len(told), len(told_writers)) >= len(case.logs.hosts)


def silent_ones(case: Case) -> Attribution | None:
    """Return the rank without an error, where all others complain of a peer."""
    waiting = case.about_peers()
    spoke = [r for r, s in case.known.items() if not s.silent or s.interrupted]
    if not waiting or not case.without(spoke)[0]:
        return None
    if len(case.known) == 1 and case.logs.world_size is None:
        return None  # of the others nothing is here: not that they said nothing
    waits = watched(case).difference(spoke)
    count, silent = case.without([*spoke, *waits])
    if not count:
        return None
    parties = tuple(
        party_of(case, rank, "it has no error while others wait for a peer")
        for rank in islice(silent, MOST_CANDIDATES)
    )
    killed = killed_alone(case, parties[0]) if count == 1 else None
    if killed is not None and (case.logs.world_size is not None or _is_local(killed.first[0])):
        return killed
    thread = next((f for s in case.shared for f in s.threads), None)
    if count == 1 and thread is not None:  # in lines that name nobody
        party = replace(parties[0], why=thread.said.words, failure=thread)
        return Attribution(ThreadDied(), (party,), sure=False, evidence=cited((party,)))
    halted = _halted(case, parties[0])
    sure = bool(halted) or (_all_known(case, waiting) and not case.logs.unread)
    apart = not_among_the_late(waiting)
    if count == 1 and apart and not halted:  # they may have waited for each other
        both = (*parties, *apart)
        return Attribution(Undecided(Doubt.SITES), candidates=both, evidence=_chorus(waiting))
    if count == 1 and (broke := network_broke(case, silent=parties[0].rank)) is not None:
        return replace(broke, candidates=parties)
    if count == 1 and not waits and len(waiting) >= 2 and sure:
        shown = tuple(map(cited_line, halted[:2]))
        where, at = stood(case.logs.stacks, parties[0].rank)
        shown += ((where, f"{parties[0].words}: {at}"),) if at else ()
        cause = SilentAlone(halted=bool(halted), at=at)
        return Attribution(cause, parties, evidence=(*shown, *_chorus(waiting)))
    odd = odd_site(case)
    if odd is not None:
        return odd
    parts = any(of_all != of_group for of_all, of_group in of_watchdogs(case))
    if count > 1 and parts and case.logs.world_size is None:
        return None  # they wait in groups of some ranks, and of which no line tells
    if count > 1:  # else the silent one is as likely
        odd = odd_work(case)
        if odd is not None:
            return odd
    if count > 1 and (broke := network_broke(case)) is not None:
        return broke
    unsure = Undecided(Doubt.SILENT, count - len(parties))
    chorus = Attribution(unsure, candidates=parties, evidence=_chorus(waiting))
    if count == 1 and not waits and _left_over(case, parties[0], waiting):
        ends = (
            one for one in case.logs.last_lines if case.logs.who(one.writer).rank == parties[0].rank
        )
        last = tuple(cited_line(one.last) for one in ends)
        chorus = Attribution(SilentAlone(here=True), parties, evidence=(*last, *_chorus(waiting)))
    lost = count > 1 and not any(map(timed_out, waiting))
    own = warned_itself(case, waiting[-1].about_peers[-1].said.words) if lost else None
    known = own if own and isinstance(own.cause, SaidLast) and own.cause.known else None
    return named_by_peers(case) or known or chorus


def _is_local(one: Suspect) -> bool:
    """Return whether its launcher counts it among its own as the job does."""
    return one.exit is not None and one.exit.local_rank == one.rank


def _left_over(case: Case, silent: Suspect, waiting: tuple[RankState, ...]) -> bool:
    """Return whether a rank wrote and did not wait, and all others from 0 on timed out."""
    state = case.known.get(silent.rank) if silent.rank is not None else None
    return (
        state is not None
        and state.writer.lines > 0
        and len(case.known) == len(waiting) + 1 == max(case.known) + 1
        and len(waiting) >= _FEWEST_WAITING
        and all(map(timed_out, waiting))
    )


def _halted(case: Case, silent: Suspect) -> list[Remark]:
    """Return the lines that show a process stopped by a signal, and of none of the other ranks."""
    others = {str(end.pid) for end in case.logs.exits if end.pid and end.rank != silent.rank}
    shown = ((one, one.match("process-stopped")) for one in case.logs.remarks)
    return [one for one, match in shown if match is not None and match["pid"] not in others]


_FEWEST_WAITING = 3


def _all_known(case: Case, waiting: tuple[RankState, ...]) -> bool:
    """Whether no rank can be missing from the count.

    A rank that ended with 0 stands in no list and no log. Connections that close tell that some
    rank ended, and it may be that one; where all wait for a time-out, the rank is alive.
    """
    count = sum(timed_out(standing) for standing in waiting)
    return case.logs.world_size is not None or (case.summarised and 2 * count > len(waiting))


def only_peers(case: Case) -> Attribution | None:
    """Return that all errors are about peers: what ended the job stands elsewhere."""
    waiting = case.about_peers()
    if waiting:
        parties = tuple(
            s.party("it only reports a lost peer", s.about_peers[-1])
            for s in waiting[:MOST_CANDIDATES]
        )
        peers = Attribution(Undecided(Doubt.PEERS), candidates=parties, evidence=_chorus(waiting))
        return warned_itself(case, waiting[0].about_peers[-1].said.words) or peers
    shared = [(s, f) for s in case.shared for f in s.about_peers]
    if shared:
        parties = tuple(s.party("it only reports a lost peer", f) for s, f in shared[:1])
        unsure = Attribution(Undecided(Doubt.PEERS), candidates=parties, evidence=cited(parties))
        said = shared[0][1]
        own = whole_above(case.logs, said, near=True) or warned_itself(case, said.said.words)
        return own or unsure
    return None


def bad_ends(case: Case) -> Attribution | None:
    """Return whom launchers say to have ended badly, where no line says why."""
    ends = [s for s in case.ranks if s.exit is not None and s.exit.is_bad]
    if not ends:
        return None
    parties = tuple(s.party("it ended badly", None) for s in ends[:MOST_CANDIDATES])
    return Attribution(Undecided(Doubt.ENDS), candidates=parties, evidence=cited(parties))


def _chorus(waiting: tuple[RankState, ...]) -> tuple[tuple[str, str], ...]:
    return cited(s.party("", s.about_peers[-1]) for s in waiting[:4])
