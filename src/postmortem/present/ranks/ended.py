"""How a job ended of which no log tells a failure: well, or nobody knows."""

from collections.abc import Sequence

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.batch_jobs import counts, fate, last_run
from postmortem.diagnose.ranks.causes import OtherText, SaidLast
from postmortem.diagnose.ranks.deciding.last_words import ended_well
from postmortem.diagnose.stacks.activity import where
from postmortem.facts.batch_jobs import BatchJob
from postmortem.facts.last_lines import FailedCell, LastLine
from postmortem.facts.rank_logs import LogFailure, RankLogs
from postmortem.facts.stackdumps import StackClasses
from postmortem.present.ranks.flights import unended_words
from postmortem.present.ranks.view import RankLogsView
from postmortem.report.model import Diagnosis, Outcome


def settled(view: RankLogsView, best: Diagnosis | None) -> Outcome | None:
    """Return what became of the job where it cannot be read off a diagnosis; else None."""
    cause = view.blame.cause
    if isinstance(cause, OtherText) or (isinstance(cause, SaidLast) and not cause.plain):
        return Outcome.UNKNOWN
    if best is None and _is_well(view.logs):
        return Outcome.HEALTHY
    return None


def _is_well(logs: RankLogs) -> bool:
    if logs.flights and not logs.exits and not logs.last_lines:
        return unended_words(logs) is None
    return ended_well(logs)


def came_to_its_end(logs: RankLogs) -> bool:
    """Return whether a launcher, or the last line, tells that the job came to its end."""
    return ended_well(logs) or bool(_own_end(logs))


def survived(logs: RankLogs, printed: Sequence[LogFailure]) -> str:
    """Return the verdict where all errors that were printed were survived, with what tells that."""
    errors = "1 error was" if len(printed) == 1 else f"{len(printed)} errors were"
    said = f"no rank failed; {errors} printed, and "
    work = max((f.work for f in printed if f.work), key=lambda one: one.line, default=None)
    if work is not None:
        return f"{said}the program went on: {clip(work.text.strip(), 100)} (line {work.line:,})"
    ends = [one.ended for one in logs.last_lines if one.ended is not None]
    if ends and not logs.exits:
        return f"{said}the program came to its end: {clip(ends[-1].text.strip(), 100)}"
    if ended_well(logs):
        return f"{said}the launcher says that all ended with 0"
    return f"{said}nothing says how the program ended"


def how_it_ended(logs: RankLogs) -> str:
    """Return the verdict where nothing failed as far as the logs tell."""
    if logs.jobs:
        return _jobs_ended(logs.jobs)
    if logs.cells:
        return f"the cell that ran last has no error, but {_failed(logs.cells)}"
    unended = unended_words(logs)
    if unended or logs.flights or ended_well(logs):
        said = unended or _own_end(logs)
        return "no failure in these logs" + (f"; {said}" if said else "")
    if logs.without_driver:
        return (
            "these logs of a Ray session report no failure, and do not say how the job ended: "
            "what its driver printed, where errors of tasks stand, is not among them"
        )
    if not logs.files and logs.stacks is not None:
        return f"no log was given: these are stacks; {_standing(logs.stacks)}"
    if over := _own_end(logs):
        return f"the logs report no failure; {over}"
    said = "the logs report no failure, and do not say how the job ended"
    near, last = _nearest(logs), _last(logs)
    if near is not None:
        return f"{said}; closest to an error is line {near.line}: {clip(near.text.strip(), 160)}"
    if logs.stacks is not None:
        return f"{said}; by the stacks {_standing(logs.stacks)}"
    words = f"{last.line}: {clip(last.text.strip(), 120)}" if last is not None else ""
    if logs.files and all(name.endswith(".ipynb") for name in logs.files):
        more = f"; the last of them is line {words}" if words else ""
        return f"the last outputs of the notebook have no error{more}"
    return f"{said}; the last line is {words}" if words else said


def _failed(cells: tuple[FailedCell, ...]) -> str:
    """Return which cells failed and were not run again, the last of them with its error."""
    last = cells[-1]
    who = last.words if len(cells) == 1 else f"{len(cells):,} cells, the last of them {last.words},"
    again = "was not run again" if len(cells) == 1 else "were not run again"
    return f"{who} failed and {again}: {clip(last.error, 120)}"


def cited_line(told: Sequence[Diagnosis], logs: RankLogs) -> str:
    """Return the place of the line that the verdict cites; where nothing failed, that of the end.

    Empty where a launcher, or the program, says that all is well.
    """
    if told:
        return told[0].evidence[0].where if told[0].evidence else ""
    last = None if came_to_its_end(logs) else _nearest(logs) or _last(logs)
    return last.where if last is not None else ""


def _nearest(logs: RankLogs) -> LastLine | None:
    return next((one.nearest for one in logs.last_lines if one.nearest is not None), None)


def _last(logs: RankLogs) -> LastLine | None:
    return max((one.last for one in logs.last_lines), key=lambda one: one.line, default=None)


def _jobs_ended(jobs: tuple[BatchJob, ...]) -> str:
    """Return what became of jobs none of which failed in the last run."""
    bad = [job for job in jobs if job.failed]
    last = last_run(jobs) if bad else jobs
    alone = f"job {last[0].id} {fate(last[0])}" if len(last) == 1 else f"jobs: {counts(last)}"
    if not bad:
        calm = "" if any(job.open and job.memory for job in jobs) else "no failure in these logs; "
        return f"{calm}HTCondor: {alone}"
    why = next((f"; job {job.id} {job.said}" for job in reversed(bad) if job.why), "")
    everything = f"of {len(jobs):,} jobs in this log {counts(jobs)}"
    return f"HTCondor: {alone}, in the last run; {everything}{clip(why, 160)}"


def _own_end(logs: RankLogs) -> str:
    """Return ``line 17 says that it is done: …`` where nothing else follows; else nothing."""
    newest = max(logs.last_lines, key=lambda one: one.last.line, default=None)
    over = (newest.ended or newest.done) if newest is not None else None
    if over is None:
        return ""
    return f"line {over.line} says that it is done: {clip(over.text.strip(), 120)}"


def _standing(stacks: StackClasses) -> str:
    """Where most of the processes stand; a stack does not tell whether they do so for long."""
    most = max(stacks, key=lambda one: len(one.members))
    count = sum(len(one.members) for one in stacks)
    place = clip(where(most.thread, None), 200)
    if count == 1:
        return f"the process stands in {place}"
    return f"{len(most.members)} of {count} processes stand in {place}"
