"""Ranks that died without Python, exited without a word, or lost a thread."""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.causes import (
    Crashed,
    ExitedSilently,
    HostMemory,
    MaybeMemory,
    MemoryKill,
    MemoryLimit,
    ThreadDied,
)
from postmortem.diagnose.ranks.deciding.case import Case, cited
from postmortem.diagnose.ranks.deciding.kernel import PYTHONS, another_namespace, ties
from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.facts.kernel_log import KernelEvent, KernelKind

_SILENT_SIGNALS = frozenset(
    {"SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGSYS", "SIGTERM"}
)


def crashed(case: Case) -> Attribution | None:
    """Return the ranks that a signal ended, or that said why they abort."""
    found = [s for s in case.all if (s.rank is not None or _on_host(s)) and _died(s)]
    shared = [s for s in case.all if s.rank is None and any(f.kind != "exception" for f in s.own)]
    if not found and not shared:
        return None
    if not found:
        return _of_shared(case, shared[0])
    found = _first_by_launcher(found)
    parties = tuple(s.party(_why(s), next(iter(s.own), None)) for s in found)
    said = [f for s in shared for f in s.own if f.kind != "exception"]
    if len(found) == len(said) == 1 and parties[0].failure is None:
        parties = (found[0].party(_why(found[0]), said[0]),)
    sure = len(found) == 1 or len({p.why for p in parties}) == 1
    cause = Crashed(_killed_for_memory(case, found))
    return Attribution(cause, parties, sure=sure, evidence=cited(parties))


def _of_shared(case: Case, shared: RankState) -> Attribution:
    """Return who ended as lines without a prefix tell: the one rank that failed, if it is one."""
    failure = next(f for f in shared.own if f.kind != "exception")
    failed = [
        s.exit
        for s in case.ranks
        if s.exit is not None
        and (s.exit.code or s.exit.signal)
        and not s.ended_by_launcher
        and s.exit.pid not in case.logs.stopped_pids
    ]
    if len(failed) == 1:
        end = failed[0]
        one = Suspect(str(end.rank), end.rank, end.host, failure.said.words, failure, end)
        return Attribution(Crashed(), (one,), evidence=cited((one,)))
    party = shared.party(failure.said.words, failure)
    sure = not any(end.signal for end in failed)
    return Attribution(Crashed(), (party,), sure=sure, evidence=cited((party,)))


def _on_host(standing: RankState) -> bool:
    """Whether it is all that one host wrote, and a launcher says how it ended."""
    return standing.writer.host is not None and standing.exit is not None


def _died(standing: RankState) -> bool:
    if any(f.kind in ("fatal", "terminate") for f in standing.own):
        return True
    end = standing.exit
    if not standing.crashed or end is None or end.signal not in _SILENT_SIGNALS:
        return False
    # Python's error, then abort() in a destructor; or the watchdog that ends the process: no cause.
    return not standing.own and (end.signal != "SIGABRT" or not standing.about_peers)


def _first_by_launcher(found: list[RankState]) -> list[RankState]:
    """srun kills the other tasks when one failed, and reports them the same way, but later."""
    ends = [s.exit for s in found if s.exit is not None and s.exit.launcher == "srun"]
    if len(ends) < 2 or len(ends) < len(found):
        return found
    others = [s for s in found if s.exit is not None and s.exit.signal != "SIGKILL"]
    if others:
        return others
    first = min(end.line for end in ends)
    return [s for s in found if s.exit is not None and s.exit.line == first]


def _why(standing: RankState) -> str:
    if standing.own:
        return standing.own[0].said.words
    assert standing.exit is not None
    return f"killed by {standing.exit.signal}"


def _killed_for_memory(case: Case, found: list[RankState]) -> MemoryKill | None:
    pids = {s.exit.pid for s in found if s.exit is not None}
    if pids & case.logs.killed_by_kernel:
        return HostMemory()
    if any(s.exit is not None and s.exit.memory for s in found):
        return MemoryLimit()
    if any(s.exit is None or s.exit.signal != "SIGKILL" for s in found):
        return None
    kill = _kill_there(case, {s.rank for s in found})
    return MaybeMemory(kill) if kill else None


def _kill_there(case: Case, ranks: set[int | None]) -> KernelEvent | None:
    """Return a kill for memory on the ranks' host that may be theirs: containers count anew."""
    for tie in ties(case):
        event = tie.event
        if event.kind is not KernelKind.OOM_KILL or not ranks & set(tie.ranks):
            continue
        mine = event.process is None or event.process.startswith(PYTHONS)
        if mine and another_namespace(event, case.logs.pids) is not False:
            return event
    return None


def exited_silently(case: Case) -> Attribution | None:
    """Return the ranks that exited with a code of their own and said nothing at all."""
    found = [
        s
        for s in case.all
        if (s.rank is not None or _on_host(s) or _of_ray(s))
        and s.silent
        and not s.stopped
        and not s.survived
        and s.exit is not None
        and (s.exit.code or _of_ray(s))
    ]
    if not found or (len(found) > 1 and case.about_peers()):
        return None
    parties = tuple(s.party(_exit_words(s)) for s in found)
    heard = all(s.writer.lines for s in found)
    above = next((s.exit.above for s in found if s.exit is not None and s.exit.above), ())
    evidence = (*cited(parties), *((line.where, clip(line.text, 300)) for line in above))
    near = above[0].text if above else ""
    return Attribution(ExitedSilently(heard, near), parties, evidence=evidence)


def _of_ray(standing: RankState) -> bool:
    """Whether Ray says that its process died, and does not know how."""
    return standing.exit is not None and standing.exit.launcher == "ray"


def _exit_words(standing: RankState) -> str:
    if standing.exit is None or standing.exit.code is None:
        return "died"
    return standing.exit.exited


def thread_died(case: Case) -> Attribution | None:
    """Return the rank in which a thread died while the others wait for it."""
    found = [s for s in case.ranks if s.threads]
    waiting = [s for s in case.about_peers() if not s.threads]
    if not found or (not waiting and not any(s.exit for s in found)):
        return None
    parties = tuple(s.party(s.threads[0].said.words, s.threads[0]) for s in found)
    return Attribution(ThreadDied(), parties, sure=len(found) == 1, evidence=cited(parties))
