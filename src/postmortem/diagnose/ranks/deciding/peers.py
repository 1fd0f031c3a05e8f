"""When all errors are about peers: who disagrees, who is named, who is missing from the chorus."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import Doubt, NamedBy
from postmortem.diagnose.ranks.causes import (
    CalledOther,
    LeftEarly,
    NamedMissing,
    SilentAlone,
    ThreadDied,
    Undecided,
    WaitsElsewhere,
)
from postmortem.diagnose.ranks.deciding.case import MOST_CANDIDATES, Case, cited
from postmortem.diagnose.ranks.deciding.ends import killed_alone
from postmortem.diagnose.ranks.deciding.hung import stood
from postmortem.diagnose.ranks.deciding.last_words import warned_itself, whole_above
from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.diagnose.ranks.deciding.votes import call_sites, fingerprints, minority
from postmortem.diagnose.ranks.deciding.watchdogs import (
    named_by_peers,
    of_watchdogs,
    size_of,
    watched,
    work_words,
    works_of,
)
from postmortem.diagnose.ranks.wordings import ErrorRole, part_of
from postmortem.facts.rank_logs import LogFailure, Remark
from postmortem.records import replace


def called_differently(case: Case) -> Attribution | None:
    """Return who called another collective than most, by PyTorch's own check."""
    failures = [f for s in case.all for f in s.about_peers if part_of(f) is ErrorRole.MISMATCH]
    calls = fingerprints(failures)
    if len(calls) < 2:
        return None
    split = minority(calls)
    if split is None:
        parties = tuple(
            _party(case, rank, f"called {what}", failures) for rank, what in sorted(calls.items())
        )
        if len(set(calls.values())) < 2:
            return None
        cause = Undecided(Doubt.COLLECTIVES)
        return Attribution(cause, candidates=parties, evidence=cited(parties))
    first = tuple(_party(case, rank, f"called {what}", failures) for rank, what in split.others)
    return Attribution(CalledOther(split.majority), first, sure=True, evidence=cited(first))


def _party(case: Case, rank: int, why: str, failures: list[LogFailure]) -> Suspect:
    standing = case.known.get(rank)
    if standing is None:
        said = next((f for f in failures if _runs(f) == rank), None)
        return Suspect(str(rank), rank, None, why, said)
    return standing.party(why, next(iter(standing.about_peers), None))


def _runs(failure: LogFailure) -> int | None:
    """Return the rank whose collective a failure names first."""
    print_ = failure.first_said.match("fingerprint")
    return int(print_["rank"]) if print_ else None


def sent_too_much(case: Case) -> Attribution | None:
    """Return the two ranks of a message with the wrong size: either may be the one that is wrong.

    gloo's ring: a rank receives from the next one (gloo/allreduce.cc).
    """
    found = [
        s for s in case.ranks if any(part_of(f) is ErrorRole.SENT_TOO_MUCH for f in s.about_peers)
    ]
    if not found or case.world < 2:
        return None
    odd = _odd_site(case)
    if odd is not None:
        return odd
    receiver = found[0]
    failure = next(f for f in receiver.about_peers if part_of(f) is ErrorRole.SENT_TOO_MUCH)
    assert receiver.rank is not None
    parties = [receiver.party("it got more than it asked for", failure)]
    sender = (receiver.rank + 1) % case.world
    if case.logs.world_size or len(case.known) == case.world:
        parties.append(_party(case, sender, "its ring neighbour, which may have sent it", []))
    return Attribution(Undecided(Doubt.SIZES), candidates=tuple(parties), evidence=cited(parties))


def named_by_others(case: Case) -> Attribution | None:
    """Return the ranks that a monitored barrier or a watchdog names as missing or behind."""
    said: list[tuple[int, str, str]] = []
    for standing in case.all:
        for failure in standing.about_peers:
            found = failure.first_said.match("mon-barrier-named")
            if found:
                where, text = f"{failure.file}:{failure.line}", failure.first_said.message
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
    first = tuple(_party(case, rank, "named as missing", []) for rank in ranks)
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
                _party(case, rank, f"enqueued {work[rank][0]} of {most[0]}", []) for rank in late
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
    # One srun lists the tasks of all hosts; torchrun those of its own.
    by_srun = any(e.launcher == "srun" and e.rank is not None for e in case.logs.exits)
    if not waiting or not (case.summarised or by_srun):
        return None
    if any(s.exit is None and not s.survived for s in waiting):
        return None  # who failed by its own words is in no list either: a host's is missing
    # torchrun writes its list when all have ended; srun says nothing of a task that still runs.
    if by_srun and 2 * sum(map(_timed_out, waiting)) > len(waiting):
        return None
    ended = {e.rank for e in case.logs.exits if e.rank is not None}
    several = len(case.logs.hosts) > 1 and not by_srun
    agents = {e.host for e in case.logs.exits if e.host} if several else set()
    count, gone = case.without([*ended, *(r for r, s in case.known.items() if not s.silent)])
    if not count or agents or 2 * count >= case.world:
        return None
    if several and not _all_summarised(case):
        return None
    parties = tuple(
        _party(case, rank, "no launcher lists it as failed: it ended with 0", []) for rank in gone
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
        _party(case, rank, "it has no error while others wait for a peer", [])
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
    apart = _not_among_the_late(waiting)
    if count == 1 and apart and not halted:  # they may have waited for each other
        both = (*parties, *apart)
        return Attribution(Undecided(Doubt.SITES), candidates=both, evidence=_chorus(waiting))
    if count == 1 and not waits and len(waiting) >= 2 and sure:
        shown = tuple((one.where, clip(one.text.strip(), 300)) for one in halted[:2])
        where, at = stood(case.logs.stacks, parties[0].rank)
        shown += ((where, f"{parties[0].words}: {at}"),) if at else ()
        cause = SilentAlone(halted=bool(halted), at=at)
        return Attribution(cause, parties, evidence=(*shown, *_chorus(waiting)))
    odd = _odd_site(case)
    if odd is not None:
        return odd
    parts = any(of_all != of_group for of_all, of_group in of_watchdogs(case))
    if count > 1 and parts and case.logs.world_size is None:
        return None  # they wait in groups of some ranks, and of which no line tells
    if count > 1:  # else the silent one is as likely
        odd = _odd_work(case)
        if odd is not None:
            return odd
    unsure = Undecided(Doubt.SILENT, count - len(parties))
    chorus = Attribution(unsure, candidates=parties, evidence=_chorus(waiting))
    if count == 1 and not waits and _left_over(case, parties[0], waiting):
        ends = (
            one for one in case.logs.last_lines if case.logs.who(one.writer).rank == parties[0].rank
        )
        last = tuple((one.last.where, clip(one.last.text.strip(), 300)) for one in ends)
        chorus = Attribution(SilentAlone(here=True), parties, evidence=(*last, *_chorus(waiting)))
    return named_by_peers(case) or chorus


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
        and all(map(_timed_out, waiting))
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
    timed_out = sum(_timed_out(standing) for standing in waiting)
    return case.logs.world_size is not None or (case.summarised and 2 * timed_out > len(waiting))


def _timed_out(standing: RankState) -> bool:
    return any(part_of(failure) is ErrorRole.WAITED for failure in standing.about_peers)


def waits_elsewhere(case: Case) -> Attribution | None:
    """Return who waits at another place than most, where all wait."""
    return _odd_site(case) or _odd_work(case)


def out_of_step(case: Case) -> Attribution | None:
    """Return the ranks whose watchdogs wait in different operations of one group.

    All that report a time-out must: those of several groups may rightly differ. Under one number
    the names of operations count, and their sizes where one name goes with one size; under several
    their sizes: one rank has left the other's behind, which a collective of all does not let it do.
    """
    works = works_of(case)
    group = next(iter(works.values()), {})
    if len(works) > 1:
        return None
    numbers = {work["number"] for work in group.values()}
    words = {rank: f"{work['op']} number {work['number']}" for rank, work in group.items()}
    if len(numbers) > 1:
        sizes = {size_of(work) for work in group.values()}
        if None in sizes or len(sizes) != len(numbers) or len(group) < case.world:
            return None
        words = {rank: work_words(work) for rank, work in group.items()}
    elif len(set(words.values())) == 1 and None not in map(size_of, group.values()):
        words = {rank: work_words(work) for rank, work in group.items()}
    if len(set(words.values())) < 2 or minority(words) is not None:
        return None
    did = "called" if len(numbers) == 1 else "waits in"
    some = [_party(case, rank, f"{did} {what}", []) for rank, what in sorted(words.items())]
    parties = tuple(some[:MOST_CANDIDATES])
    return Attribution(Undecided(Doubt.COLLECTIVES), candidates=parties, evidence=cited(parties))


def _odd_work(case: Case) -> Attribution | None:
    """Return who waits in another collective than most of its group, as NCCL's watchdogs say."""
    groups = {
        name: {rank: work_words(work) for rank, work in found.items()}
        for name, found in works_of(case).items()
    }
    for name, calls in sorted(groups.items(), key=lambda item: -len(item[1])):
        split = minority(calls) if len(calls) >= 3 else None
        if split is None:
            continue
        parties = tuple(
            _party(case, rank, f"waits in {what}, most others in {split.majority}", [])
            for rank, what in split.others
        )
        if len(parties) == 1:
            one = (_party(case, split.others[0][0], f"waits in {split.others[0][1]}", []),)
            # Before torch 2.2 a time-out does not say of which group it is.
            cause = WaitsElsewhere(split.majority, if_one_group=not name)
            return Attribution(cause, one, evidence=cited(one))
        some = parties[:MOST_CANDIDATES]
        return Attribution(Undecided(Doubt.SITES), candidates=some, evidence=cited(some))
    return None


def _not_among_the_late(waiting: tuple[RankState, ...]) -> tuple[Suspect, ...]:
    """Return who was in another place than all whose time was up, until they were gone."""
    late = {*call_sites(s for s in waiting if _timed_out(s)).values()}
    rest = {s.rank: s for s in waiting if not _timed_out(s)}
    apart = {r: site for r, site in call_sites(rest.values()).items() if site not in late}
    if len(late) != 1 or len(apart) > MOST_CANDIDATES:
        return ()
    return tuple(rest[rank].party(f"waits in {site}") for rank, site in apart.items())


def _odd_site(case: Case) -> Attribution | None:
    waiting = case.about_peers()
    sites = call_sites(waiting)
    split = minority(sites)
    # When a peer went away, ranks are caught wherever they are; when all wait, it tells.
    timed_out = sum(_timed_out(standing) for standing in waiting)
    if split is None or len(sites) < 3 or 2 * timed_out <= len(waiting):
        return None
    parties = tuple(_party(case, rank, f"waits in {what}", []) for rank, what in split.others)
    if len(parties) > 1:  # in a ring, the neighbours of the odd one stop with it
        some = parties[:MOST_CANDIDATES]
        return Attribution(Undecided(Doubt.SITES), candidates=some, evidence=cited(parties))
    return Attribution(WaitsElsewhere(split.majority), parties, evidence=cited(parties))


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
        return whole_above(case.logs, shared[0][1], near=True) or unsure
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
