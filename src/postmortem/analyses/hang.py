"""``postmortem hang``: from live processes to a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from postmortem.analyses.masking import Masking
from postmortem.analyses.places import with_source
from postmortem.diagnose import rule
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.signals.deadlock import deadlock
from postmortem.diagnose.hang.hot_path import hot_path
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import NothingFailed
from postmortem.diagnose.ranks.deciding.case import Case
from postmortem.diagnose.ranks.deciding.hung import stands_elsewhere
from postmortem.diagnose.stacks.classes import classes
from postmortem.errors import EvidenceError
from postmortem.facts.live import HotPath, LiveJob, Motion
from postmortem.facts.rank_logs import RankLogs
from postmortem.facts.source import Problem
from postmortem.facts.stackdumps import StackClasses
from postmortem.facts.threads import Threads
from postmortem.present.hang.blocks import hang_blocks
from postmortem.present.hang.body import hang_body
from postmortem.present.hang.card import hang_highlights
from postmortem.present.headline.hang import WAITS, headline, progresses
from postmortem.readers.live.job_processes import Members, members_of, members_of_job
from postmortem.readers.live.snapshot import ReadOptions, with_calls
from postmortem.readers.live.watch import (
    Samples,
    look_often,
    missing_local_ranks,
    read_workers,
    watch,
)
from postmortem.records import record, replace
from postmortem.report.model import Diagnosis, Evidence, Outcome, Report, Role, ordered

_BUSY_SHARE = 0.5
"""Of one processor: who computes for less of the time waits, above all."""
_MOST_BUSY = 4
_MOST_LOOK_SECONDS = 3.0


@record
class HangOptions:
    """What the user asked for."""

    pids: tuple[int, ...] = ()
    job: str | None = None
    without: tuple[int, ...] = ()
    """Processes that are left out, whoever else belongs to the job."""
    reading: ReadOptions = ReadOptions()
    samples: int = 2
    gap_seconds: float = 1.0
    looks: int = 12
    """At each process that computes and waits for no other one; 0 for none."""
    verbose: bool = False
    redact: bool = True


def analyse(options: HangOptions, progress: Callable[[str], None] | None = None) -> Report:
    """Return the report on live processes; raises EvidenceError when none can be read."""
    return report_on(read_job(options, progress), options)


def read_job(
    options: HangOptions, progress: Callable[[str], None] | None = None
) -> tuple[LiveJob, Samples]:
    """Return what live processes do; after it they are no longer needed. Raises EvidenceError."""
    members = members_of(options.pids) if options.job is None else members_of_job(options.job)
    if options.without:
        members = _without(members, options.without)
    if not members.leaders:
        raise _none_left(members)
    samples = watch(
        members,
        options.reading,
        samples=options.samples,
        gap_seconds=options.gap_seconds,
        progress=progress,
    )
    if not samples.ranks:
        first = samples.problems[0] if samples.problems else Problem("hang", "nothing was read")
        raise EvidenceError(first.where, first.what, hint=first.remedy)
    return _job(members, samples, options)


def _without(members: Members, pids: Sequence[int]) -> Members:
    left = tuple(one for one in members.leaders if one.status.pid not in pids)
    return replace(members, leaders=left)


def _none_left(members: Members) -> EvidenceError:
    if not members.zombies:
        return EvidenceError("hang", "no other process is left to read")
    dead = members.zombies[0]
    what = (
        f"is a zombie: it has ended, and its parent, pid {dead.ppid}, has not asked how; nothing "
        "of it is left to read"
    )
    hint = "its logs tell why it ended: postmortem logs LOG..."
    return EvidenceError(f"pid {dead.pid}", what, hint=hint)


def _job(members: Members, samples: Samples, options: HangOptions) -> tuple[LiveJob, Samples]:
    found = classes(samples.stacks)
    alone = _worth_following(samples, found)
    motions = _motions(samples)
    hot = _hot_paths(samples, alone, motions, options)
    samples = read_workers(samples, alone, options.reading)
    problems = list(samples.problems)
    for zombie in members.zombies[:16]:
        what = f"is a zombie: it has ended, and its parent, pid {zombie.ppid}, has not asked how"
        problems.append(Problem(f"pid {zombie.pid}", what))
    rows = {one.pid: one for one in (*samples.ranks, *samples.workers)}
    rows = with_calls(rows, problems)
    job = LiveJob(
        processes=tuple(rows.values()),
        stacks=found,
        samples=options.samples,
        gap_seconds=options.gap_seconds,
        motions=motions,
        hot_paths=hot,
        missing_local_ranks=missing_local_ranks(samples.ranks),
        zombies=tuple(one.pid for one in members.zombies),
    )
    return job, replace(samples, problems=tuple(dict.fromkeys(problems)))


def _worth_following(samples: Samples, found: StackClasses) -> tuple[int, ...]:
    """Return the ranks whose own children may be the reason: those that wait for no other rank."""
    waiting = {m.label for one in found if one.doing in WAITS for m in one.members}
    return tuple(one.pid for one in samples.ranks if one.label not in waiting)[:8]


def _hot_paths(
    samples: Samples, alone: Sequence[int], motions: Sequence[Motion], options: HangOptions
) -> tuple[HotPath, ...]:
    """Return where those spend their time who compute while the others wait, or are the only one.

    The looks come after all samples: between these nothing may be stopped.
    """
    computes = {one.label for one in motions if one.cpu_share > _BUSY_SHARE or one.ran_always}
    busy = [one.pid for one in samples.ranks if one.pid in alone and one.label in computes]
    stacks = look_often(
        samples,
        busy[:_MOST_BUSY],
        options.reading,
        looks=options.looks,
        seconds=_MOST_LOOK_SECONDS,
    )
    found = (hot_path(pid, rows) for pid, rows in stacks.items())
    return tuple(one for one in found if one is not None)


def _motions(samples: Samples) -> tuple[Motion, ...]:
    rows = []
    for one in samples.ranks:
        seconds, cpu, switches = samples.activity.get(one.pid, (0.0, 0.0, 0))
        if seconds > 0:
            moved, runs = one.label in samples.moved, one.label in samples.running
            rows.append(Motion(one.label, min(1.0, cpu / seconds), switches, moved, runs))
    return tuple(rows)


def report_on(read: tuple[LiveJob, Samples], options: HangOptions) -> Report:
    """Return the report on what was read."""
    job, samples = read
    masking = Masking(redact=options.redact, argv=[one.argv for one in job.processes])
    job = masking.facts(job)
    blame = _blame(job)
    outcome = rule.run(rule.load("hang"), {Attribution: blame, LiveJob: job})
    diagnoses = ordered((*_deadlocks(job, blame), *outcome.diagnoses))
    if not diagnoses and not _is_anything_known(job) and samples.problems:
        first = samples.problems[0]
        raise EvidenceError(first.where, first.what, hint=first.remedy)
    report = Report(
        kind="hang",
        inputs=(),
        verdict=headline(job, blame, diagnoses),
        failed=any(one.role is Role.ROOT for one in diagnoses),
        diagnoses=diagnoses,
        blocks=hang_blocks(job, blame, verbose=options.verbose),
        body=hang_body(job, blame),
        problems=(*samples.problems, *outcome.problems),
        skipped=outcome.skipped,
        footer=_footer(job),
        highlights=with_source(hang_highlights(job, blame)),
        settled=Outcome.HEALTHY if not diagnoses and progresses(job) else None,
    )
    return masking.report(report)


def _is_anything_known(job: LiveJob) -> bool:
    """Whether there is more than that processes exist: a stack, a system call, an open file."""
    return any(
        one.reading.way != "none" or one.descriptors or any(task.call for task in one.tasks)
        for one in job.processes
    )


def _blame(job: LiveJob) -> Attribution:
    """Return who holds up the others; nobody does where those who wait go on."""
    nobody = Attribution(NothingFailed())
    if progresses(job):
        return nobody
    logs = RankLogs((), (), (), (), frozenset(), frozenset(), None, None, (), 0, (), job.stacks)
    return stands_elsewhere(Case(logs)) or nobody


def _deadlocks(job: LiveJob, blame: Attribution) -> Iterable[Diagnosis]:
    """Return the circles of locks inside of processes, as a core's report has them."""
    suspects = {party.label for party in (*blame.first, *blame.candidates)}
    for one in job.processes:
        outcome = rule.run((deadlock,), {FaultKind: FaultKind.SNAPSHOT, Threads: one.threads})
        for found in outcome.diagnoses:
            role = found.role
            if suspects and one.label not in suspects and one.of_pid is None:
                role = Role.CONTRIBUTING
            yield replace(
                found,
                title=f"{one.label}: {found.title}"[:100],
                role=role,
                evidence=tuple(
                    Evidence(f"{one.label} {row.where}", row.what) for row in found.evidence
                ),
            )


def _footer(job: LiveJob) -> str:
    ranks = job.ranks()
    count = f"{len(ranks)} {'process' if len(ranks) == 1 else 'processes'}"
    longest = max((one.reading.stopped_seconds for one in job.processes), default=0.0)
    stopped = f", stopped for {longest * 1000:.0f} ms at most" if longest else ""
    return f"{count}, {job.samples} {'sample' if job.samples == 1 else 'samples'}{stopped}"
