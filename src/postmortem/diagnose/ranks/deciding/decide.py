"""The decision: which evidence singles out a rank, the strongest kind of it first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.causes import Crashed, Doubt, NothingFailed, SeenByKernel, Undecided
from postmortem.diagnose.ranks.deciding.case import Case
from postmortem.diagnose.ranks.deciding.crashes import crashed, exited_silently, thread_died
from postmortem.diagnose.ranks.deciding.hung import holding_up, jam_undecided, stands_elsewhere
from postmortem.diagnose.ranks.deciding.kernel import named_by_kernel, ties
from postmortem.diagnose.ranks.deciding.last_words import (
    only_a_stack,
    outlived,
    process_ended,
    said_last,
)
from postmortem.diagnose.ranks.deciding.numbers import numbers_went_bad
from postmortem.diagnose.ranks.deciding.peers import (
    called_differently,
    left_early,
    named_by_others,
    sent_too_much,
    silent_ones,
    undecided,
    waits_elsewhere,
)
from postmortem.diagnose.ranks.deciding.raised import raised
from postmortem.diagnose.ranks.deciding.startup import (
    could_not_start,
    node_failed,
    stopped_from_outside,
)
from postmortem.facts.rank_logs import RankLogs
from postmortem.records import replace

# A signal before an exception: what dies in C++ takes its peers' connections with it. What names a
# rank before what only leaves one over. The kernel knows whom it killed, and which GPU is gone.
_STEPS: Sequence[Callable[[Case], Attribution | None]] = (
    named_by_kernel,
    numbers_went_bad,
    raised,
    node_failed,
    crashed,
    holding_up,
    stands_elsewhere,
    called_differently,
    sent_too_much,
    named_by_others,
    thread_died,
    exited_silently,
    jam_undecided,
    could_not_start,
    left_early,
    silent_ones,
    waits_elsewhere,
    stopped_from_outside,
    process_ended,
    undecided,
    said_last,
    only_a_stack,
)


def decide(logs: RankLogs) -> Attribution:
    """Return who failed first, or that it cannot be decided; deterministic."""
    case = Case(logs)
    open_: Attribution | None = None
    for step in _STEPS:
        blame = step(case)
        if blame is None or (open_ is not None and not blame.first):
            continue
        if blame.cause == Undecided(Doubt.STACKS):
            open_ = blame  # stacks of a job that only starts show nothing: what it wrote may
            continue
        return _finished(case, blame)
    if open_ is not None:
        return _finished(case, open_)
    return Attribution(NothingFailed(), jam=case.jam, ties=ties(case))


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
        outlived(case, blame),
        victims=victims,
        also=also,
        blamed=blamed,
        whole_host=blame.whole_host or _host(case, blame),
        ties=ties(case),
    )


def _beside(case: Case, blame: Attribution, guilty: set[int | str]) -> Iterator[Suspect]:
    """Yield who raised an error that is not about a peer while a crash of another one is blamed.

    That a process is gone explains errors about it, and no KeyError.
    """
    if not isinstance(blame.cause, Crashed | SeenByKernel):
        return
    for standing in case.ranks:
        raised = next((f for f in standing.own if f.kind == "exception"), None)
        if raised is not None and standing.writer.rank not in guilty | {None}:
            yield standing.party(raised.said.words, raised)


def _host(case: Case, blame: Attribution) -> str | None:
    hosts = {party.host for party in blame.first}
    if len(blame.first) < 2 or len(hosts) != 1 or None in hosts:
        return None
    host = next(iter(hosts))
    there = {s.rank for s in case.ranks if s.writer.host == host and s.rank is not None}
    elsewhere = {s.writer.host for s in case.ranks} - {host, None}
    all_there = there == {party.rank for party in blame.first}
    return host if elsewhere and all_there else None
