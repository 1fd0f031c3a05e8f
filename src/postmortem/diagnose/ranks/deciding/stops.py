"""Jobs that somebody stopped: why, and whether that was before they failed or came to their end."""

from collections.abc import Iterable, Sequence

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import StoppedFromOutside
from postmortem.diagnose.ranks.deciding.case import Case, cited_line
from postmortem.diagnose.ranks.deciding.ends import RIGHT_ABOVE, nameless
from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.diagnose.ranks.phrases import at_frame
from postmortem.facts.exits import LogExit, Stop
from postmortem.facts.rank_logs import LogFailure, LogFrame
from postmortem.records import replace

_SCHEDULERS = ("Slurm", "CI")


def reason_of_stop(words: Iterable[LogExit]) -> Stop | None:
    """Return what a scheduler says it stopped the job for."""
    return next((word.why for word in words if word.why is not None), None)


def over_limit(case: Case) -> bool:
    """Return whether the scheduler says that it ended the job for its memory."""
    return reason_of_stop(case.logs.words) is Stop.MEMORY


def _interrupted_alone(stopped: Sequence[RankState], others: Sequence[RankState]) -> bool:
    """Return whether the last thing a lone program raised says that it was stopped.

    What its workers said of it before, they said because of that.
    """
    last = max((f.line for one in others for f in (*one.about_peers, *one.startup)), default=0)
    lone = len(stopped) == 1 and stopped[0].rank is None and list(others) == list(stopped)
    return lone and stopped[0].stopped[-1].line > last


def stopped_from_outside(case: Case) -> Attribution | None:
    """Return that the job was stopped, where nothing failed before."""
    over = outlived_stops(case)
    told = [word for word in case.logs.words if word.of_job and word.where not in over]
    stopped = [s for s in case.all if s.stopped]
    others = [s for s in case.all if s.startup or any(f.kind != "thread" for f in s.about_peers)]
    said = [one.stopped for one in case.logs.last_lines if one.stopped is not None]
    if others and not told and not _interrupted_alone(stopped, others):
        return None
    if not told and not stopped and not said:
        return None
    if not told and not stopped:
        evidence = tuple(map(cited_line, said[:3]))
    elif told:
        told.sort(key=lambda word: word.why is None)  # what says why, first
        evidence = tuple(map(cited_line, told[:3]))
    else:
        evidence = tuple(
            (f.where, clip(f.said.words, 300)) for s in stopped[:3] for f in s.stopped[:1]
        )
    scheduled = any(word.launcher in _SCHEDULERS for word in told)
    cause = StoppedFromOutside(evidence[0][1], reason_of_stop(told[:3]), scheduled)
    if cause.why is None and _ended_before(case, evidence[0][0], unsaid=not told or scheduled):
        return None
    memory = case.logs.said_memory
    if scheduled and cause.why is None and memory is not None:
        cause = replace(cause, then=memory.text)
        evidence = (*evidence, cited_line(memory))
    alone = _interrupted_elsewhere(case, stopped)
    if alone is not None:
        who, failure = alone
        stood = f"{who.party('').words} was interrupted{at_frame(failure)}, others as they waited"
        cause = replace(cause, then=stood)
        evidence = (*evidence, (failure.where, stood))
    return Attribution(cause, evidence=evidence)


def outlived_stops(case: Case) -> set[str]:
    """Return where it is told that the job is stopped which had come to a good end."""
    return {word.where for word in case.logs.words if word.of_job and _outlived(case, word)}


def _outlived(case: Case, word: LogExit) -> bool:
    """Return whether all came to a good end: far below a word on a stop, which is of another job.

    Or right above it, where that does not say why, or in other files than that word.
    """
    here = [one for one in case.logs.last_lines if one.last.file == word.file]
    if word.why is None and not any(one.worked for one in here):
        worked = [one for one in case.logs.last_lines if one.worked]
        return bool(worked) and all(one.ended or one.done for one in worked)
    ends = [end for one in here if (end := one.ended or one.done) is not None]
    over = word.why is None and all(one.ended or one.done for one in here if one.worked)
    late = any(end.line > word.line + thresholds.CAUGHT_LINES for end in ends)
    return late or (over and any(0 < word.line - end.line <= RIGHT_ABOVE for end in ends))


def _ended_before(case: Case, stop: str, *, unsaid: bool) -> bool:
    """Return whether a bad end of a process is told of above the line of a stop.

    By who watched, or, where it is `unsaid` who stopped all or why, by last words that count.
    """
    file, _, line = stop.rpartition(":")
    ends = [(end.file, end.line) for end in nameless(case)]
    for one in case.logs.last_lines if unsaid else ():
        if one.stopped is not None:
            continue
        said = one.errors[:1] or ((one.nearest,) if one.nearest_counts else ())
        ends += [(end.file, end.line) for end in said if end is not None]
    return any(where == file and at < int(line) for where, at in ends)


def _interrupted_elsewhere(
    case: Case, stopped: list[RankState]
) -> tuple[RankState, LogFailure] | None:
    """Return the one rank that Ctrl-C found in its own code while others were in collectives.

    That it held them up is not said: of a job that runs there is often such a one.
    """
    there = [(s, f) for s in stopped for f in s.stopped[-1:] if s.rank is not None and f.frames]
    odd = [pair for pair in there if not any(map(_of_collectives, pair[1].frames))]
    waits = len(there) > len(odd) or case.about_peers()
    return odd[0] if len(odd) == 1 and waits else None


def _of_collectives(frame: LogFrame) -> bool:
    return "torch/distributed/" in frame.file
