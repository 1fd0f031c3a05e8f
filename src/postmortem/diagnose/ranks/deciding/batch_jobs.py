"""Jobs of a batch system that it holds, that were removed, or that ended badly."""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.batch_jobs import last_run
from postmortem.diagnose.ranks.causes import JobsFailed
from postmortem.diagnose.ranks.deciding.case import Case

_MOST = 3


def jobs_failed(case: Case) -> Attribution | None:
    """Return the jobs of the last run that came to no good end; those that are held come first."""
    bad = [job for job in last_run(case.logs.jobs) if job.failed]
    if not bad:
        return None
    bad.sort(key=lambda job: (not job.open, not job.held, not job.why, job.line))
    evidence = tuple(
        (f"{job.file}:{job.hold_line or job.line}", clip(f"job {job.id} {job.said}", 300))
        for job in bad[:_MOST]
    )
    return Attribution(JobsFailed(tuple(bad)), evidence=evidence)
