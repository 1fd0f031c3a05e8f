"""``postmortem hang``: from live processes to a report."""

import time
from collections.abc import Callable

from postmortem.analyses.live_job import HangOptions, read_job
from postmortem.analyses.masking import Masking
from postmortem.analyses.places import report_with_source
from postmortem.diagnose import rule
from postmortem.diagnose.hang.holding import deadlocks, holder_up
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.errors import EvidenceError
from postmortem.facts.live import LiveJob
from postmortem.facts.source import Problem
from postmortem.present.hang.report import hang_report
from postmortem.readers.live.watch import Samples
from postmortem.records import replace
from postmortem.report.model import Confidence, Report, ordered


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
    return masking.report(report_with_source(report))
