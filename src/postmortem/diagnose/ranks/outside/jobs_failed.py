"""HTCondor holds a job, it was removed, or it ended badly.

What it means
    The log of a job's events tells how each job ended. One that is held waits until somebody
    releases it; it is held for a limit that it passed, a file that could not be transferred, or
    by a person. A job's own error stands in its error file, not here.
How to be sure
    condor_q -hold shows held jobs with the reason, condor_history those that have left the queue.
What to do
    Do away with the reason, then condor_release or submit again.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.batch_jobs import counts, fate, names
from postmortem.diagnose.ranks.causes import JobsFailed
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.batch_jobs import BatchJob, JobState
from postmortem.facts.rank_logs import RankLogs


@rule("https://htcondor.readthedocs.io/en/latest/codes-other-values/hold-reason-codes.html")
def jobs_failed(blame: Attribution, logs: RankLogs) -> Findings:
    if not isinstance(blame.cause, JobsFailed):
        return
    bad = blame.cause.jobs
    others = tuple(job for job in logs.jobs if job not in bad)
    title = clip(f"HTCondor: {_title(bad)}", 100)
    why = f": {clip(bad[0].why, 140)}" if bad[0].why else ""
    more = f"; besides, {counts(others)}" if others else ""
    yield Finding(
        title=title,
        verdict=f"{title}{why}{more}",
        cause=_cause(bad[0]),
        confidence=Confidence.CERTAIN,
        next_steps=_steps(bad[0]),
        evidence=cite(blame),
    )


def _title(bad: tuple[BatchJob, ...]) -> str:
    if len({(job.how, job.memory) for job in bad}) > 1:
        return f"{len(bad):,} jobs of the last run did not end well: {counts(bad)}"
    return f"{names(bad)} {fate(bad[0], len(bad))}"


def _cause(job: BatchJob) -> str:
    if job.held:
        return f"HTCondor held it, and it was removed from the queue ({clip(job.reason, 160)})."
    if job.state is JobState.HELD:
        again = f", for the {job.holds:,}th time" if job.holds > 3 else ""
        return f"The last event of job {job.id} is a hold{again}: it waits to be released."
    if job.state is JobState.REMOVED and job.memory:
        return "It went over its limit of memory, and left the queue."
    if job.state is JobState.REMOVED:
        return "It left the queue before its program ended: it was removed, it did not fail."
    return "HTCondor tells how its program ended, and not why: its own words are in other files."


def _steps(job: BatchJob) -> tuple[str, ...]:
    history = f"condor_history -long {job.id}  has all that is known of it"
    if job.memory:
        return (
            "request_memory = … in the submit file: more than its MemoryUsage, which this log has",
            f"of a job in the queue: condor_qedit {job.id} RequestMemory MEGABYTES, then "
            f"condor_release {job.id}",
        )
    if job.state is JobState.HELD:
        return (f"remove the reason, then condor_release {job.id}",)
    if job.held:
        return ("remove the reason, then submit it again", history)
    if job.state is JobState.REMOVED:
        return ("ask who removed it; periodic_remove in the submit file does so too", history)
    return ("give postmortem the file that error = … names in the submit file", history)
