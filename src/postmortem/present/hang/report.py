"""The report of live processes."""

from postmortem.diagnose.hang.holding import progresses
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.rule import Outcome as Concluded
from postmortem.facts.live import LiveJob
from postmortem.facts.source import Problem
from postmortem.present.hang.blocks import hang_blocks
from postmortem.present.hang.body import hang_body
from postmortem.present.hang.card import hang_highlights
from postmortem.present.headline.hang import headline
from postmortem.report.model import Diagnosis, Outcome, Report, Role
from postmortem.text import counted


def hang_report(
    job: LiveJob,
    blame: Attribution,
    diagnoses: tuple[Diagnosis, ...],
    outcome: Concluded,
    problems: tuple[Problem, ...],
    *,
    verbose: bool,
) -> Report:
    """Return the report; `diagnoses` are those of the rules, and the circles of locks."""
    return Report(
        kind="hang",
        inputs=(),
        verdict=headline(job, blame, diagnoses),
        failed=any(one.role is Role.ROOT for one in diagnoses),
        diagnoses=diagnoses,
        blocks=hang_blocks(job, blame, verbose=verbose),
        body=hang_body(job, blame),
        problems=(*problems, *outcome.problems),
        skipped=outcome.skipped,
        footer=(_footer(job),),
        highlights=hang_highlights(job, blame),
        settled=Outcome.HEALTHY if not diagnoses and progresses(job) else None,
    )


def _footer(job: LiveJob) -> str:
    count = counted(len(job.ranks()), "process", "processes")
    longest = max((one.reading.stopped_seconds for one in job.processes), default=0.0)
    stopped = f", stopped for {longest * 1000:.0f} ms at most" if longest else ""
    return f"{count}, {counted(job.samples, 'sample')}{stopped}"
