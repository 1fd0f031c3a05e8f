"""Who of those that raised an error of their own did so first."""

from collections.abc import Iterator, Sequence

from postmortem import thresholds
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import Cause, ChildKilled, EveryRankRaised, Raised, Undecided
from postmortem.diagnose.ranks.deciding.case import Case, cited, same_words
from postmortem.diagnose.ranks.deciding.rank_state import RankState, ends_behind
from postmortem.diagnose.ranks.wordings import about_numbers
from postmortem.facts.exits import LogExit
from postmortem.facts.rank_logs import LogFailure

_CHILD_KILLED, _JVM = "error-child-killed", "jvm-signal"
_CHILD_DIED = "error-child-died"
_RIGHT_ABOVE = 2
"""Lines: an empty one may stand between."""


def first_to_raise(case: Case, own: Sequence[tuple[RankState, LogFailure]]) -> Attribution:
    """Return which of the ranks that raised did so first, or that nothing orders them."""
    groups: dict[str, list[tuple[RankState, LogFailure]]] = {}
    for item in own:
        groups.setdefault(same_words(item[1]), []).append(item)
    if len(groups) > 1:
        return _several(case, list(groups.values()))
    return _alike(case, own, sure=True)


def _alike(case: Case, own: Sequence[tuple[RankState, LogFailure]], *, sure: bool) -> Attribution:
    parties = tuple(s.party(f.words, f) for s, f in own)
    others = [s for s in case.ranks if not s.own]
    every = len(own) > 1 and all(s.silent and s.ended_by_launcher for s in others)
    full = not case.logs.world_size or len(own) + len(others) >= case.logs.world_size
    few = len(own) > 1 and _one_of_many(case, own)
    same = every and full and not _waiting(others) and not few
    child = _child_of(case, own[0][1]) or _thread_above(case, *own[0])
    kill = _memory_beside(case, own[0][1])
    stopped, ended = case.logs.stopped_pids, {e.pid for e in case.logs.exits if e.pid}
    here = len(stopped | ended) if ended else len(own) + len(stopped)
    world = case.logs.world_size or max(case.world, here)
    cause: Cause = EveryRankRaised(world) if same else Raised(child)
    cause = cause if kill is None else ChildKilled(kill.text.strip())
    sure = sure and kill is None and not any(f.went_on for _, f in own)
    sure = sure and not (same and about_numbers(f for _, f in own))  # one may have it of another
    evidence = (*cited(parties), *_told_beside(child, kill))
    return Attribution(cause, parties, sure=sure, evidence=evidence)


def _told_beside(child: LogFailure | None, kill: LogExit | None) -> Iterator[tuple[str, str]]:
    """Yield what is cited of a process that whoever raised had started."""
    if kill is not None:
        yield kill.where, kill.text.strip()
    if child is not None:
        yield f"{child.file}:{child.line}", child.said.words


def _child_of(case: Case, failure: LogFailure) -> LogFailure | None:
    """Return how the program crashed of whose death by a signal somebody raised; a JVM tells.

    It does so above the traceback, and in a report of its own, which has the pid too and says more.
    """
    if failure.said.match(_CHILD_KILLED) is None:
        return None
    crashes = [(f, found) for f in case.logs.failures if (found := f.match(_JVM)) is not None]
    beside = {found["pid"] for f, found in crashes if f.file == failure.file}
    near = {
        found["pid"]
        for f, found in crashes
        if f.file == failure.file and f.writer == failure.writer and f.line < failure.line
    }
    mine = [f for f, found in crashes if found["pid"] in near or not beside]
    pids = {found["pid"] for f, found in crashes if f in mine}
    reports = [f for f in mine if f.file != failure.file]
    return next(iter(reports or mine), None) if len(pids) == 1 else None


def _memory_beside(case: Case, failure: LogFailure) -> LogExit | None:
    """Return what tells of a kill for memory, if who raised only says that its own process died."""
    if failure.said.match(_CHILD_DIED) is None:
        return None
    return case.logs.said_memory


def _thread_above(case: Case, state: RankState, failure: LogFailure) -> LogFailure | None:
    """Return how a thread of the same process died right above: nothing was written between.

    A rank has its name in what PyTorch writes last of it, and not in what its threads do.
    """
    near = (
        one
        for writer in (state, *case.shared)
        for one in writer.threads
        if one.file == failure.file and 0 < failure.begin_line - one.line <= _RIGHT_ABOVE
    )
    return next(near, None)


def _waiting(others: list[RankState]) -> bool:
    return any(s.about_peers for s in others)


def _one_of_many(case: Case, own: Sequence[tuple[RankState, LogFailure]]) -> bool:
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


def somebody_raised(case: Case, state: RankState, failure: LogFailure, times: int) -> Attribution:
    """Return whose exceptions in lines of nobody are: how many there are tells how many raised."""
    ended = tuple(s for s in case.ranks if s.exit is not None)
    who = tuple(s for s in case.failed_ends if s.exit and ends_behind(s.exit, failure))
    # The launcher of a node writes where its ranks do.
    who = tuple(s for s in who if s.exit and s.exit.file == failure.file) or who
    every = times > 1 and times >= len(ended) > 0
    if every:
        who = ended
    elif times == 1 and len(who) > 1:  # the others say under their own prefix what they failed of
        quiet = tuple(s for s in who if s.silent)
        who = quiet if len(quiet) == 1 else who
    if times == 1 and len(who) != 1:
        who = tuple(s for s in case.ranks if s.aborted_mpi)
    if not who or (times == 1 and len(who) > 1):
        who, times = (state,), 1
    parties = tuple(s.party(failure.said.words, failure) for s in who)
    thread = _thread_above(case, state, failure)
    kill = _memory_beside(case, failure)
    cause: Cause = EveryRankRaised(case.world) if len(who) > 1 else Raised(thread)
    cause = cause if kill is None else ChildKilled(kill.text.strip())
    label = state.party(failure.said.words, failure)
    evidence = (*cited((label,) if len(who) > 1 else parties), *_told_beside(thread, kill))
    return Attribution(cause, parties, sure=every and kill is None, evidence=evidence)
