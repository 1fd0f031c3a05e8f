"""Ranks with an error of their own, one that is not about a peer."""

from postmortem import thresholds
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.causes import Cause, Doubt, EveryRankRaised, Raised, Undecided
from postmortem.diagnose.ranks.deciding.case import Case, cited, same_words
from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.facts.rank_logs import LogFailure


def raised(case: Case) -> Attribution | None:
    """Return the ranks that raised first; None when nobody has an error of its own."""
    own = [(s, s.own[0]) for s in case.ranks if s.own and s.own[0].kind == "exception"]
    own += [
        (s, next(f for f in s.own if f.kind == "exception"))
        for s in case.ranks
        if s.own and s.own[0].kind != "exception" and any(f.kind == "exception" for f in s.own)
    ]
    if own:
        return _of_ranks(case, own)
    return _of_shared(case)


def _of_ranks(case: Case, own: list[tuple[RankState, LogFailure]]) -> Attribution | None:
    if any(s.crashed and not s.own for s in case.ranks) and not _before_crash(case, own):
        return None
    groups: dict[str, list[tuple[RankState, LogFailure]]] = {}
    for item in own:
        groups.setdefault(same_words(item[1]), []).append(item)
    if len(groups) > 1:
        return _several(case, list(groups.values()))
    return _alike(case, own, sure=True)


def _before_crash(case: Case, own: list[tuple[RankState, LogFailure]]) -> bool:
    """Whether what raised did so before another rank crashed: a crash leaves no time to raise."""
    return all(
        s.exit is not None
        and s.exit.signal not in ("SIGSEGV", "SIGBUS", "SIGKILL", "SIGILL", "SIGFPE")
        for s in case.ranks
        if s.crashed and not s.own
    )


def _alike(case: Case, own: list[tuple[RankState, LogFailure]], *, sure: bool) -> Attribution:
    parties = tuple(s.party(f.said.words, f) for s, f in own)
    others = [s for s in case.ranks if not s.own]
    every = len(own) > 1 and all(s.silent and s.ended_by_launcher for s in others)
    full = not case.logs.world_size or len(own) + len(others) >= case.logs.world_size
    few = len(own) > 1 and _one_of_many(case, own)
    same = every and full and not _waiting(others) and not few
    cause: Cause = EveryRankRaised() if same else Raised()
    return Attribution(cause, parties, sure=sure, evidence=cited(parties))


def _waiting(others: list[RankState]) -> bool:
    return any(s.about_peers for s in others)


def _one_of_many(case: Case, own: list[tuple[RankState, LogFailure]]) -> bool:
    """Whether fewer than half of the ranks raised: the rest are victims, not latecomers."""
    return 2 * len(own) < case.world


def _several(case: Case, groups: list[list[tuple[RankState, LogFailure]]]) -> Attribution:
    """Different errors on different ranks: only an order that can be trusted tells the first."""
    items = [group[0] for group in groups]
    times = [f.time for _, f in items]
    hosts = {s.writer.host for s, _ in items}
    if all(time is not None for time in times) and len(hosts) == 1:
        order = sorted(range(len(items)), key=lambda i: times[i] or 0.0)
        first, second = order[0], order[1]
        if (times[second] or 0.0) - (times[first] or 0.0) >= thresholds.AT_ONCE_SECONDS:
            return _alike(case, groups[first], sure=False)
    if len({f.file for _, f in items}) == 1:
        index = min(range(len(items)), key=lambda i: items[i][1].begin_line)
        return _alike(case, groups[index], sure=False)
    parties = tuple(
        s.party(f"its own error: {f.said.words}", f) for group in groups for s, f in group
    )
    return Attribution(Undecided(Doubt.ERRORS), candidates=parties, evidence=cited(parties))


def _of_shared(case: Case) -> Attribution | None:
    """Errors in lines that no prefix tells apart: how many there are tells how many ranks."""
    found = [(s, f) for s in case.all if s.rank is None for f in s.own if f.kind == "exception"]
    if not found:
        return None
    groups: dict[str, list[tuple[RankState, LogFailure]]] = {}
    for item in found:
        groups.setdefault(same_words(item[1]), []).append(item)
    first = next(iter(groups.values()))
    standing, failure = first[0]
    exits = [e for e in case.logs.exits if e.rank is not None]
    failing = [
        e
        for e in exits
        if not e.stopped and (e.code or (e.signal and e.pid not in case.logs.stopped_pids))
    ]
    if len(failing) > 1 and len(first) == 1:
        # The others say under their own prefix what they failed of.
        quiet = [e for e in failing if (s := case.known.get(e.rank or 0)) is not None and s.silent]
        failing = quiet if len(quiet) == 1 else failing
    party = standing.party(failure.said.words, failure)
    if any(s.crashed for s in case.ranks) and len(first) == 1 and not _codes(case):
        return None
    if len(first) > 1 and len(first) >= len(exits) > 0:
        everyone = tuple(
            Suspect(str(e.rank), e.rank, e.host, failure.said.words, failure, e) for e in exits
        )
        return Attribution(EveryRankRaised(), everyone, sure=True, evidence=cited((party,)))
    if len(failing) == 1 and len(first) == 1:
        end = failing[0]
        one = Suspect(str(end.rank), end.rank, end.host, failure.said.words, failure, end)
        return Attribution(Raised(), (one,), evidence=cited((one,)))
    aborted = [s for s in case.ranks if any(f.said.exception == "MPI_Abort" for f in s.own)]
    if len(aborted) == len(first) == 1:  # mpi4py prints a traceback, then calls it
        one = aborted[0].party(failure.said.words, failure)
        return Attribution(Raised(), (one,), evidence=cited((one,)))
    if len(first) > 1 and failing:
        some = tuple(
            Suspect(str(e.rank), e.rank, e.host, failure.said.words, failure, e) for e in failing
        )
        return Attribution(EveryRankRaised(), some, evidence=cited((party,)))
    parties = tuple(s.party(f.said.words, f) for s, f in first[:1])
    return Attribution(Raised(), parties, evidence=cited(parties))


def _codes(case: Case) -> bool:
    return any(e.code for e in case.logs.exits if e.rank is not None)
