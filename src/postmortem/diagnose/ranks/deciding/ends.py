"""How processes ended, as signals, launchers, shells and schedulers tell it."""

from collections.abc import Iterator, Sequence

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.causes import (
    Crashed,
    ExitedSilently,
    HostFailed,
    HostMemory,
    MaybeMemory,
    MemoryKill,
    MemoryLimit,
    ProcessEnded,
    SaidMemory,
    UnnamedProcessEnded,
)
from postmortem.diagnose.ranks.deciding.case import (
    MOST_CANDIDATES,
    Case,
    cited,
    cited_line,
    outlived,
)
from postmortem.diagnose.ranks.deciding.kernel import PYTHONS, another_namespace, ties
from postmortem.diagnose.ranks.deciding.rank_state import (
    KILLERS,
    RankState,
    is_stuck,
    without_echoes,
)
from postmortem.diagnose.ranks.wordings import ErrorRole, part_of
from postmortem.facts.crash import CRASH_SIGNALS
from postmortem.facts.exits import OF_COMMANDS, RUN, TRACKER, LogExit
from postmortem.facts.kernel_log import KernelEvent, KernelKind
from postmortem.facts.last_lines import LastLine
from postmortem.facts.rank_logs import LogFailure, Remark, Writer
from postmortem.knowledge.messages import briefs
from postmortem.records import replace

_MOST = 4
RIGHT_ABOVE = 2
_FEW_LINES = 3
_OF_ONE = (
    *("shell", "the service", RUN, "supervisord", "systemd", TRACKER, "SageMaker"),
    *("Airflow", "Jupyter"),
    *OF_COMMANDS,
)
"""Who watches programs, and not the ranks of a job."""


def first_to_crash(case: Case, found: list[RankState], said: Sequence[LogFailure]) -> Attribution:
    """Return which of those that crashed did so first; `said` is what lines of nobody say."""
    every = _first_by_launcher(found)
    found = without_echoes(every)
    memory = _killed_for_memory(case, found)
    also = "; a kill for memory is reported" if isinstance(memory, SaidMemory) else ""
    parties = tuple(s.party(_crash_words(s) + also, next(iter(s.own), None)) for s in found)
    if len(found) == len(said) == 1 and parties[0].failure is None:
        parties = (found[0].party(_crash_words(found[0]), said[0]),)
    sure = len(found) == 1 or len({p.why for p in parties}) == 1
    sure = sure and len(found) == len(every) and not all(map(_aborted_unsaid, parties))
    sure = sure and not any(is_stuck(f) for s in found for f in s.own)
    told = ((memory.where, clip(memory.said, 300)),) if isinstance(memory, SaidMemory) else ()
    return Attribution(Crashed(memory), parties, sure=sure, evidence=(*cited(parties), *told))


def somebody_crashed(case: Case, state: RankState, failure: LogFailure) -> Attribution:
    """Return who ended as lines of nobody tell: the one rank that failed, if it is one."""
    failed = case.failed_ends
    who = failed[0] if len(failed) == 1 else state
    party = who.party(failure.said.words, failure)
    sure = not outlived(case, failure) and not any(s.exit and s.exit.signal for s in failed)
    return Attribution(Crashed(), (party,), sure=sure and who is state, evidence=cited((party,)))


def _first_by_launcher(found: list[RankState]) -> list[RankState]:
    """Some launchers kill the others when one failed, and report them the same way.

    srun's lines have the order of the ends; those of MPI's launchers have that of the ranks.
    """
    ends = [s.exit for s in found if s.exit is not None and s.exit.launcher in KILLERS]
    if len(ends) < 2 or len(ends) < len(found):
        return found
    others = [s for s in found if s.exit is not None and s.exit.signal != "SIGKILL"]
    if others:
        return others
    if any(end.launcher != "srun" for end in ends):
        return found
    first = min(end.line for end in ends)
    return [s for s in found if s.exit is not None and s.exit.line == first]


def _crash_words(standing: RankState) -> str:
    if standing.own:
        return standing.own[0].said.words
    assert standing.exit is not None
    return standing.exit.evicted or f"killed by {standing.exit.signal}"


def _aborted_unsaid(party: Suspect) -> bool:
    """It called abort(), and what it said before that, which may blame a peer, is not there."""
    if party.failure is not None and part_of(party.failure) is ErrorRole.AFTERMATH:
        return True
    if party.failure is not None and party.failure.said.exception == "Aborted":
        return True  # glog's handler says when, and which signal it was below
    aborted = party.exit is not None and party.exit.signal == "SIGABRT"
    return aborted and (party.failure is None or party.failure.said.message == "Aborted")


def _killed_for_memory(case: Case, found: list[RankState]) -> MemoryKill | None:
    pids = {s.exit.pid for s in found if s.exit is not None and s.exit.pid}
    if any(word.pid in pids for word in case.logs.words):
        return HostMemory()
    if any(s.exit is not None and s.exit.memory for s in found):
        return MemoryLimit()
    if any(s.exit is None or s.exit.signal != "SIGKILL" for s in found):
        return None
    kill = _kill_there(case, {s.rank for s in found})
    if kill is not None:
        return MaybeMemory(kill)
    said = case.logs.said_memory
    return SaidMemory(said.text, said.where) if said is not None else None


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


def silent_exits(case: Case) -> Attribution | None:
    """Return the ranks that exited with a code of their own and said nothing at all."""
    found = [
        s
        for s in case.all
        if s.is_known
        and s.silent
        and not s.stopped
        and not s.survived
        and not s.ended_by_launcher
        and s.exit is not None
        and (s.exit.code or s.exit.died)
    ]
    served = [s.exit.line for s in found if s.exit is not None and s.exit.launcher == "vLLM"]
    if len(served) == len(found) > 1:  # its engine tells of a worker, then its server of the engine
        found = [s for s in found if s.exit is not None and s.exit.line == min(served)]
    if not found or (len(found) > 1 and case.about_peers()):
        return None
    if any(s.startup for s in case.shared):  # an error that names no rank: it may well be theirs
        return None
    if any(quotes(s.exit, f) for s in found if s.exit for f in case.logs.failures):
        return None
    parties = tuple(s.party(s.exit.exited if s.exit is not None else "died") for s in found)
    heard = all(s.writer.lines for s in found)
    for said, known in _last_errors(case, [one.writer for one in found]):
        evidence = ((said.where, clip(said.text, 300)), *cited(parties))
        cause = ExitedSilently(heard, said.text, error=True, known=known)
        return Attribution(cause, parties, evidence=evidence)
    tells = len(found) == 1 and (_said_little(found[0]) or _left_its_work(case, found[0]))
    few = found[0].writer.last_words[-1:] if tells else ()
    known = next((hint for s in found if s.exit for hint in _hints(case, s.exit)), "")
    cause = ExitedSilently(heard, "".join(few), known=known)
    return Attribution(cause, parties, evidence=cited(parties))


def _hints(case: Case, end: LogExit) -> Iterator[str]:
    """Yield what the error that tells of an end says of why, by its ids."""
    told = (failure for failure in case.logs.failures if failure.where == end.where)
    for failure in told:
        for match in failure.said.matches:
            if briefs()[match.id].role == "contributing":
                yield match.id


def _last_errors(case: Case, writers: Sequence[Writer]) -> Iterator[tuple[LastLine, str]]:
    """Yield the lines that read like an error at, or near, the end of some ranks, and their ids."""
    theirs = set(map(id, writers))
    for one in case.logs.last_lines:
        line = one.errors[0] if one.errors else one.nearest
        if line is not None and id(case.logs.writers[one.writer]) in theirs:
            yield line, one.known


def _said_little(standing: RankState) -> bool:
    return 0 < standing.writer.lines <= _FEW_LINES


def _left_its_work(case: Case, standing: RankState) -> bool:
    """Return whether the last line of a rank is none of those by which it went on with its work."""
    ends = (one for one in case.logs.last_lines if case.logs.writers[one.writer] is standing.writer)
    return any(0 < one.worked < one.last.line for one in ends)


def quotes(end: LogExit, cut: LogFailure) -> bool:
    """Return whether a launcher quotes the traceback of a process, which the log cuts off."""
    behind = end.file == cut.file and 0 < cut.begin_line - end.line <= RIGHT_ABOVE
    return behind and not cut.said.exception and not cut.causes


def left_silently(standing: RankState) -> bool:
    """Return whether a rank of which there are lines ended without a word, by a code of its own.

    1 is what follows from any exception, of which the lines may be lost; above 128 is a signal.
    """
    end = standing.exit
    return (
        standing.silent
        and not (standing.stopped or standing.survived or standing.ended_by_launcher)
        and bool(standing.writer.lines)
        and end is not None
        and end.launcher == "torchrun"
        and 1 < (end.code or 0) < 128
    )


def node_failed(case: Case) -> Attribution | None:
    """Return the host that who watches it says failed, and the ranks that were there.

    Ray's job may outlive it: not where somebody lost a peer by it.
    """
    words = {word.where: word for word in case.logs.words if word.host}
    last = (line for one in case.logs.last_lines if one.about_peer for line in one.errors)
    lost = any(s.about_peers for s in case.all) or any(line.where not in words for line in last)
    told = [word for word in words.values() if word.launcher != "Ray" or lost]
    if not told:
        return None
    host, by = told[0].host or "", told[0].launcher
    there = [s for s in case.ranks if s.writer.host == host]
    if not there and by == "Slurm" and all(s.exit.host for s in case.ranks if s.exit is not None):
        # srun tells how the tasks of the other hosts ended, with their hosts
        there = [s for s in case.ranks if s.exit is None]
        there = there if len(there) < len(case.ranks) else []
    first = tuple(s.party("its host failed") for s in there)
    evidence = tuple(map(cited_line, told[:3]))
    return Attribution(HostFailed(host, by), first, evidence=evidence, whole_host=host)


def unnamed_end(case: Case) -> Attribution | None:
    """Return that a process ended badly which its launcher does not name: MPICH, a shell."""
    ends = nameless(case)
    if not ends:
        return None
    end = ends[0]
    if end.local_rank is not None and not case.ranks:
        return _local(end)
    if end.launcher == "raylet" and not case.ranks:
        evidence = ((end.where, f"raylet says: {end.words}"),)
        return Attribution(ProcessEnded(end), evidence=evidence)
    limited = end.launcher in ("kubernetes", "Slurm") and (
        end.memory or end.evicted or end.unplaced
    )
    pod = end.launcher == "kubernetes" and end.host and end.signal in CRASH_SIGNALS
    of_one = end.launcher in _OF_ONE or limited or pod
    whole = end.of_launcher or end.launcher == "systemd"  # a unit is all that it started
    if of_one and (whole or not case.ranks) and _only_one(case):
        return _of_program(case, end)
    alike = all(e.launcher == "shell" and e.signal == end.signal for e in ends)
    if alike and end.signal is not None and not case.ranks:  # a script that runs one by one
        said = tuple((e.where, f"the shell says: {e.words}") for e in ends[-_MOST:])
        return Attribution(ProcessEnded(replace(ends[-1], times=len(ends))), evidence=said)
    parties = tuple(
        s.party("it may be that process")
        for s in case.ranks
        if s.silent and not s.stopped and not s.ended_by_launcher and s.exit is None
    )
    return Attribution(
        UnnamedProcessEnded(end),
        candidates=parties if len(parties) <= MOST_CANDIDATES else (),
        evidence=((end.where, f"{end.launcher} says: {end.words}"),),
    )


def nameless(case: Case) -> list[LogExit]:
    """Return the bad ends that launchers tell of who has no rank, and that nobody wanted."""
    # Who misses a peer may abort; its end is no cause.
    lost = any(s.about_peers for s in case.all)
    effects = [("shell", "SIGABRT"), ("kubernetes", "SIGABRT")] if lost else []
    logs = case.logs
    over = {logs.writers[one.writer] for one in logs.last_lines if one.ended or one.done}
    done = bool(case.ranks) and all(s.writer in over for s in case.ranks)
    return [
        e
        for e in case.logs.exits
        if e.rank is None
        and e.is_bad
        and not (e.stopped or e.pid in case.logs.stopped_pids)
        and (e.launcher, e.signal) not in effects
        and not (done and e.launcher == "kubernetes" and e.host)  # a pod of somebody else's
    ]


def killed_alone(case: Case, missed: Suspect) -> Attribution | None:
    """Return that the one rank that is missed is the one process whose end is told.

    It ended by a signal, or by a code of its own: 1 is what follows from a lost peer, too.
    """
    ends = nameless(case)
    if len(ends) != 1:
        return None
    end = ends[0]
    if end.launcher == "shell" and end.pid is None:
        return None  # it says so of what it started: a launcher of all
    if end.signal:
        party = replace(missed, why=f"killed by {end.signal}", exit=end)
        return Attribution(Crashed(), (party,), evidence=cited((party,)))
    if (end.code or 0) > 1 and end.local_rank in (None, missed.rank):
        party = replace(missed, why=end.exited, exit=end)
        return Attribution(ExitedSilently(), (party,), evidence=cited((party,)))
    return None


def _local(end: LogExit) -> Attribution:
    """Return who failed on the host of an agent, which counts its own processes only."""
    label = f"local rank {end.local_rank}"
    if end.signal is None:
        one = Suspect(label, None, end.host, end.exited, None, end)
        return Attribution(ExitedSilently(), (one,), evidence=cited((one,)))
    one = Suspect(label, None, end.host, f"killed by {end.signal}", None, end)
    return Attribution(Crashed(), (one,), evidence=cited((one,)))


def _only_one(case: Case) -> bool:
    return len([e for e in case.logs.exits if e.is_bad]) == 1


def _aborted_for(case: Case, end: LogExit) -> tuple[Remark, str] | None:
    """Return the line right above an abort that tells for which signal it is, and that signal."""
    if end.signal != "SIGABRT":
        return None
    for one in case.logs.remarks:
        told = one.match("abort-for-signal")
        if told is not None and one.file == end.file and 0 < end.line - one.line <= RIGHT_ABOVE:
            return one, told["signal"]
    return None


def _of_program(case: Case, end: LogExit) -> Attribution:
    """Return that the one program of a shell, or of a run of ours, died."""
    memory = case.logs.said_memory if end.signal == "SIGKILL" and not end.memory else None
    evidence = [(end.where, f"{end.witness} says: {end.words}")]
    why = _aborted_for(case, end)
    if why is not None:
        end = replace(end, signal=why[1])
        evidence.insert(0, (why[0].where, clip(why[0].text, 300)))
    if memory is not None:
        evidence.append(cited_line(memory))
    said = memory.text if memory is not None else ""
    return Attribution(ProcessEnded(end, said), evidence=tuple(evidence))
