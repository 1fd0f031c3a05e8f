"""The decision: what nothing explains is told; where all is an effect, who is missed."""

from collections.abc import Callable, Iterator, Sequence

from postmortem import thresholds
from postmortem.diagnose.incident.graph import Incident, solve
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import (
    Cause,
    Crashed,
    NothingFailed,
    Raised,
    SaidLast,
    SeenByKernel,
    StandsElsewhere,
    StoppedFromOutside,
    ThreadDied,
    Undecided,
)
from postmortem.diagnose.ranks.deciding.case import Case, cited
from postmortem.diagnose.ranks.deciding.ends import left_silently
from postmortem.diagnose.ranks.deciding.events import Kind, LogEvent, events
from postmortem.diagnose.ranks.deciding.hung import (
    holding_up,
    jam_undecided,
    not_seen,
    stands_elsewhere,
    stopped_alone,
)
from postmortem.diagnose.ranks.deciding.kernel import silenced, ties
from postmortem.diagnose.ranks.deciding.last_words import (
    cut_off,
    left_open,
    only_a_stack,
    outlived,
    spoke_itself,
)
from postmortem.diagnose.ranks.deciding.late import (
    came_late,
    ended_at_work,
    found_others_gone,
    left_unlisted,
)
from postmortem.diagnose.ranks.deciding.peers import (
    bad_ends,
    left_early,
    named_by_others,
    only_peers,
    silent_ones,
)
from postmortem.diagnose.ranks.deciding.rows import ROWS
from postmortem.diagnose.ranks.deciding.sites import (
    called_differently,
    out_of_step,
    sent_too_much,
    waits_elsewhere,
)
from postmortem.diagnose.ranks.deciding.startup import could_not_start
from postmortem.diagnose.ranks.deciding.watchdogs import named_by_peers
from postmortem.facts.rank_logs import LogFailure, RankLogs
from postmortem.knowledge.messages import briefs
from postmortem.records import replace

# What says by itself why it ended, before who is missed by others; what names a rank, before what
# only leaves one over. Steps look at who is missed where no event of the graph is a root.
_ORDER: Sequence[tuple[Kind, ...] | Callable[[Case], Attribution | None]] = (
    (
        Kind.NAMED_BY_KERNEL,
        Kind.NUMBERS,
        Kind.RAISED,
        Kind.SOMEBODY_RAISED,
        Kind.HOST_FAILED,
        Kind.CRASHED,
        Kind.SOMEBODY_CRASHED,
        Kind.CANCELLED,
    ),
    holding_up,
    lambda case: stands_elsewhere(case.logs.stacks, case.known, case.world),
    called_differently,
    out_of_step,
    sent_too_much,
    named_by_others,
    (Kind.THREAD_DIED, Kind.EXITED),
    jam_undecided,
    spoke_itself,
    could_not_start,
    came_late,
    left_early,
    left_unlisted,
    silent_ones,
    stopped_alone,
    waits_elsewhere,
    (Kind.JOBS_FAILED, Kind.STOPPED, Kind.PROGRAM_ENDED),
    named_by_peers,
    ended_at_work,
    found_others_gone,
    only_peers,
    cut_off,
    (Kind.ENDED,),
    bad_ends,
    (Kind.SAID_LAST,),
    not_seen,
    only_a_stack,
    left_open,
    silenced,
)


_OF_NCCL = tuple(
    f"nccl-result-{kind}" for kind in ("system", "cuda", "usage", "argument", "internal")
)
"""Kinds of its errors: what failed stands in a warning of its own."""
_BESIDE = ((_OF_NCCL, "nccl-warning"), (("dl-exited",), "dl-bus-banner"))
"""Errors that do not say what failed, and the warning that does."""
_NEAR = 24
"""Lines from an error to that warning."""


def decide(logs: RankLogs) -> Attribution:
    """Return who failed first, or that it cannot be decided; deterministic."""
    case = Case(logs)
    incident = solve(events(case), ROWS, effects=())
    open_: Attribution | None = None
    for step in _ORDER:
        blame = _root(incident, step) if isinstance(step, tuple) else step(case)
        if blame is None or (open_ is not None and isinstance(blame.cause, Undecided)):
            continue
        if blame.cause == Undecided(Doubt.STACKS):
            open_ = blame  # stacks of a job that only starts show nothing: what it wrote may
            continue
        if open_ is not None and _says_less(blame.cause):
            break  # who ended it had looked at it: for what, the stacks tell, if anything does
        return _finished(case, _of_its_thread(case, incident, blame))
    if open_ is not None:
        return _finished(case, open_)
    return Attribution(NothingFailed(), jam=case.jam, ties=ties(case))


def _says_less(cause: Cause) -> bool:
    """Return whether it is a stop without a reason, or an error that may not be the end."""
    if isinstance(cause, SaidLast):
        return cause.behind
    return isinstance(cause, StoppedFromOutside) and cause.why is None and not cause.then


def _root(incident: Incident[LogEvent], kinds: tuple[Kind, ...]) -> Attribution | None:
    """Return what is told of the first root of these kinds; of two, one that may explain the other.

    The kinds stand in the order in which roots that have nothing to do with each other are told.
    """
    told = {
        i
        for i, event in enumerate(incident.events)
        if event.blame and not set(kinds).isdisjoint(_told_as(incident, i))
    }
    roots = told.intersection(incident.roots)
    above = {link.effect for link in incident.links if link.cause in roots}
    first = min(roots, key=lambda i: (i in above, incident.events[i].order), default=None)
    if first is None:
        return None
    blame = incident.events[first].blame
    stops = (
        e.last for i in incident.hit_by(first) if (e := incident.events[i]).type is Kind.STOPPED
    )
    last = next(stops, None)
    before = incident.events[first].type is Kind.CANCELLED
    if blame is not None and before and isinstance(blame.cause, StoppedFromOutside):
        return _with_what_followed(incident, first, blame, blame.cause)
    if blame is None or last is None:
        return blame
    said = last.said.words if isinstance(last, LogFailure) else last.text
    return replace(blame, then=said, evidence=(*blame.evidence, (last.where, clip(said, 300))))


def _with_what_followed(
    incident: Incident[LogEvent], stop: int, blame: Attribution, cause: StoppedFromOutside
) -> Attribution:
    """Return a stop with what was raised because of it: in a handler, as a rule."""
    effects = (incident.events[i].blame for i in incident.hit_by(stop))
    parties = (party for one in effects if one is not None for party in one.first)
    party = next((one for one in parties if one.failure is not None), None)
    if party is None or party.failure is None:
        return blame
    where = party.failure.where
    said = f"{party.words}: {party.failure.said.words}"
    followed = ((where, clip(said, 300)),)
    return replace(blame, cause=replace(cause, then=said), evidence=(*blame.evidence, *followed))


def _of_its_thread(case: Case, incident: Incident[LogEvent], blame: Attribution) -> Attribution:
    """Return what is told of who stands elsewhere, or that its thread died, for which it waits.

    Lines of a thread have no rank's name: the one death that they tell of is of who stands there.
    """
    if not isinstance(blame.cause, StandsElsewhere):
        return blame
    stuck = {party.rank for party in blame.first}
    for event in incident.events:
        died = event.blame if event.type is Kind.THREAD_DIED else None
        if died is not None and stuck <= {party.rank for party in died.first}:
            return replace(died, evidence=(*died.evidence, *blame.evidence))
    nameless = [thread for state in case.shared for thread in state.threads]
    if len(nameless) == len(blame.first) == 1:
        party = replace(blame.first[0], why=nameless[0].said.words, failure=nameless[0])
        evidence = (*cited((party,)), *blame.evidence)
        return replace(blame, cause=ThreadDied(), first=(party,), evidence=evidence)
    return blame


def _told_as(incident: Incident[LogEvent], event: int) -> set[Kind]:
    """Return in which place an event is told: its own, or that of what it explains."""
    kind = incident.events[event].type
    if kind not in (Kind.SAID_ABOVE, Kind.NOT_STARTED):
        return {kind}
    return {incident.events[word].type for word in incident.hit_by(event)}


def _finished(case: Case, blame: Attribution) -> Attribution:
    """Add who is a victim, what torchrun said, and whether it is a whole host."""
    guilty = {party.rank if party.rank is not None else party.label for party in blame.first}
    guilty |= {p.rank if p.rank is not None else p.label for p in blame.candidates}
    also = tuple(_beside(case, blame, guilty))
    guilty |= {party.rank for party in also if party.rank is not None}
    victims = tuple(
        party
        for party in case.victims()
        if (party.rank if party.rank is not None else party.label) not in guilty
    )
    blamed = tuple(sorted({e.rank for e in case.logs.exits if e.blamed and e.rank is not None}))
    return replace(
        outlived(case, _beside_memory(case, _with_warning(case, blame))),
        victims=victims,
        also=also,
        blamed=blamed,
        whole_host=blame.whole_host or _host(case, blame),
        ties=ties(case),
    )


def _beside(case: Case, blame: Attribution, guilty: set[int | str]) -> Iterator[Suspect]:
    """Yield who failed by itself too: that a process is gone explains errors about it, no KeyError.

    Beside an exception, one that was raised at the same time, and an end without a word by a code
    that no exception has: what came later may follow from it, in words that nobody knows.
    """
    if not isinstance(blame.cause, Crashed | SeenByKernel | Raised):
        return
    first = next((party.failure for party in blame.first if party.failure is not None), None)
    beside_error = isinstance(blame.cause, Raised)
    for standing in case.ranks:
        if standing.writer.rank is None or standing.writer.rank in guilty:
            continue
        raised = next((f for f in standing.own if f.kind == "exception"), None)
        if raised is not None and not (beside_error and _later(first, raised)):
            yield standing.party(raised.said.words, raised)
        elif beside_error and left_silently(standing):
            assert standing.exit is not None
            yield standing.party(f"it {standing.exit.exited} without a word")


def _later(first: LogFailure | None, other: LogFailure) -> bool:
    """Return whether an error came so much later than the first that it may follow from that."""
    if first is None or first.time is None or other.time is None:
        return first is None or first.file != other.file
    return abs(other.time - first.time) >= thresholds.AT_ONCE_SECONDS


def _beside_memory(case: Case, blame: Attribution) -> Attribution:
    """Return a blame for an exception as less sure, where an unknown process ran out of memory."""
    ended = next((e for e in case.logs.exits if e.memory and e.rank is None), None)
    if ended is None or not isinstance(blame.cause, Raised):
        return blame
    said = (ended.where, f"{ended.launcher} says: {ended.words}")
    return replace(blame, sure=False, evidence=(*blame.evidence, said))


def _with_warning(case: Case, blame: Attribution) -> Attribution:
    """Return a blame for an error of NCCL, or that a worker is gone, with the warning beside it.

    That says what failed: the first of those beside it, where one process wrote them all, or all
    say the same.
    """
    failure = blame.first[0].failure if blame.first else None
    said = failure.said if failure is not None else None
    warning = next((name for ids, name in _BESIDE if said and said.match(*ids) is not None), None)
    if failure is None or warning is None:
        return blame
    near = range(failure.begin_line - _NEAR, failure.line + _NEAR)
    warned = [
        (one, one.match("nccl-line"))
        for one in case.logs.remarks
        if one.file == failure.file and one.line in near and one.match(warning)
    ]
    if not warned:
        return blame
    one = warned[0][0]
    roots = [{m.id for m in w.matches if briefs()[m.id].role == "root"} for w, _ in warned]
    several = len({(m["host"], m["pid"]) if m else None for _, m in warned}) > 1
    if several and not set.intersection(*roots):
        return blame
    evidence = ((one.where, clip(one.text, 300)), *blame.evidence)
    root = next((match for match in one.matches if match.id in roots[0]), None)
    return replace(blame, evidence=evidence, warned=root)


def _host(case: Case, blame: Attribution) -> str | None:
    hosts = {party.host for party in blame.first}
    if len(blame.first) < 2 or len(hosts) != 1 or None in hosts:
        return None
    host = next(iter(hosts))
    there = {s.rank for s in case.ranks if s.writer.host == host and s.rank is not None}
    elsewhere = {s.writer.host for s in case.ranks} - {host, None}
    all_there = there == {party.rank for party in blame.first}
    return host if elsewhere and all_there else None
