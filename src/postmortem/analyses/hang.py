"""``postmortem hang``: from live processes to a report."""

import time
from collections.abc import Callable

from postmortem.analyses.masking import Masking
from postmortem.analyses.places import with_source
from postmortem.diagnose import rule
from postmortem.diagnose.hang.holding import deadlocks, holder_up, worth_following
from postmortem.diagnose.hang.hot_path import busy_ranks, hot_paths
from postmortem.diagnose.hang.pace import paces
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.stacks.classes import classes
from postmortem.errors import EvidenceError
from postmortem.facts.live import LiveJob
from postmortem.facts.source import Problem
from postmortem.present.hang.report import hang_report
from postmortem.readers.live.job_processes import chosen_members
from postmortem.readers.live.nccl_ras import ask_ras
from postmortem.readers.live.snapshot import ReadOptions, with_calls
from postmortem.readers.live.watch import (
    Samples,
    look_often,
    missing_local_ranks,
    read_workers,
    watch,
)
from postmortem.records import record, replace
from postmortem.report.model import Confidence, Report, ordered


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
    within_seconds: float | None = None
    """Where samples take long, fewer are taken: after so much time one more."""
    looks: int = 12
    """At each process that computes and waits for no other one; 0 for none."""
    verbose: bool = False
    redact: bool = True


def analyse(options: HangOptions, progress: Callable[[str], None] | None = None) -> Report:
    """Return the report on live processes; raises EvidenceError when none can be read."""
    return report_on(read_job(options, progress), options)


def until_stuck(
    options: HangOptions, interval: float, progress: Callable[[str], None] | None = None
) -> Report:
    """Look every `interval` seconds until somebody is stuck for as long, or the job has ended.

    Returns the report that names who is stuck; else the last one, with a problem that says that
    nobody was. Raises EvidenceError where there is no job in the beginning.
    """
    report = analyse(options, progress)
    while True:
        confirming = report.failed  # who only was slow is elsewhere when looked at for long
        looking = replace(options, samples=2, gap_seconds=interval) if confirming else options
        if not confirming:
            time.sleep(interval)
        try:
            job, samples = read_job(looking, progress)
            found = report_on((job, samples), looking)
        except EvidenceError as error:
            nobody = f"{error.what}: the job has ended; nobody was seen stuck for {interval:g} s"
            ended = Problem("hang --watch", nobody)
            return replace(report, failed=False, problems=(*report.problems, ended))
        if not confirming:
            report = found
            continue
        sure = found.failed and found.diagnoses[0].confidence is not Confidence.POSSIBLE
        if sure or (found.failed and all(one.is_still for one in job.motions)):
            return found
        report = replace(found, failed=False)  # begun anew by a short look, an interval later


def read_job(
    options: HangOptions, progress: Callable[[str], None] | None = None
) -> tuple[LiveJob, Samples]:
    """Return what live processes do; after it they are no longer needed. Raises EvidenceError."""
    members = chosen_members(options.pids, options.job, options.without)
    samples = watch(
        members,
        options.reading,
        samples=options.samples,
        gap_seconds=options.gap_seconds,
        within_seconds=options.within_seconds,
        progress=progress,
    )
    if not samples.ranks:
        first = samples.problems[0] if samples.problems else Problem("hang", "nothing was read")
        raise EvidenceError(first.where, first.what, hint=first.remedy)
    found = classes(samples.stacks)
    alone, motions = worth_following(samples.ranks, found), samples.motions()
    busy = busy_ranks(samples.ranks, alone, motions)
    looks = look_often(samples, busy, options.reading, looks=options.looks)
    samples = read_workers(samples, alone, options.reading)
    problems = [*samples.problems, *members.remarks()]
    rows = {one.pid: one for one in (*samples.ranks, *samples.workers)}
    rows = with_calls(rows, problems)
    job = LiveJob(
        processes=tuple(rows.values()),
        stacks=found,
        samples=samples.taken,
        gap_seconds=options.gap_seconds,
        motions=motions,
        paces=paces(samples.stacks, motions),
        hot_paths=hot_paths(looks),
        missing_local_ranks=missing_local_ranks(samples.ranks),
        zombies=tuple(one.pid for one in members.zombies),
        nccl_ras=ask_ras(tuple(rows.values())),
    )
    return job, replace(samples, problems=tuple(dict.fromkeys(problems)))


def report_on(read: tuple[LiveJob, Samples], options: HangOptions) -> Report:
    """Return the report on what was read."""
    job, samples = read
    masking = Masking(redact=options.redact, argv=[one.argv for one in job.processes])
    job = masking.facts(job)
    blame = holder_up(job)
    outcome = rule.run(rule.load("hang"), {Attribution: blame, LiveJob: job})
    diagnoses = ordered((*deadlocks(job, blame), *outcome.diagnoses))
    if not diagnoses and not job.is_anything_known and samples.problems:
        first = samples.problems[0]
        raise EvidenceError(first.where, first.what, hint=first.remedy)
    report = hang_report(job, blame, diagnoses, outcome, samples.problems, verbose=options.verbose)
    if report.highlights is not None:
        report = replace(report, highlights=with_source(report.highlights))
    return masking.report(report)
