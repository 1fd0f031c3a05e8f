"""What jobs of a batch system came to: which run of them counts, and all of them in a few words."""

from collections.abc import Sequence

from postmortem.facts.batch_jobs import BatchJob, JobState
from postmortem.text import some

_MOST_NAMED = 3


def last_run(jobs: Sequence[BatchJob]) -> tuple[BatchJob, ...]:
    """Return the jobs of the newest run that tells of an end, or a hold; of none, the newest."""
    if not jobs:
        return ()
    told = [job.run for job in jobs if job.failed or job.state is JobState.ENDED]
    newest = max(told or [job.run for job in jobs])
    return tuple(job for job in jobs if job.run == newest)


def names(jobs: Sequence[BatchJob]) -> str:
    """Return ``job 41.0`` or ``jobs 41.0, 41.1, 41.2 and 7 more``."""
    return f"job{'s' if len(jobs) > 1 else ''} {some([job.id for job in jobs], _MOST_NAMED)}"


def counts(jobs: Sequence[BatchJob]) -> str:
    """Return ``3 ended with 0, 1 was held and removed``, what is most frequent first."""
    alike: dict[tuple[str, bool], list[BatchJob]] = {}
    for job in jobs:
        alike.setdefault((job.how, job.memory), []).append(job)
    groups = sorted(alike.values(), key=len, reverse=True)
    return ", ".join(f"{len(group):,} {fate(group[0], len(group))}" for group in groups)


def fate(job: BatchJob, count: int = 1) -> str:
    """Return ``was held and removed for memory``, of one or of several."""
    one = count == 1
    if job.state is JobState.ENDED and job.signal is None:
        return job.how
    if job.state is JobState.HELD:
        said = "is held" if one else "are held"
    elif job.open:
        said = "has not ended" if one else "have not ended"
        said += (", though it was stopped" if one else ", though stopped") if job.memory else ""
    else:
        said = f"{'was' if one else 'were'} {job.how}"
    return said + (" for memory" if job.memory else "")
