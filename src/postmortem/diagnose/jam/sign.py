"""Whether the job stood still when its dumps were written: a job that runs waits everywhere too."""

from postmortem import thresholds
from postmortem.diagnose.jam.jam import Sign
from postmortem.diagnose.jam.job import Job


def sign_of_hang(job: Job, timed_out: str | None) -> tuple[Sign, str]:
    """Return whether anything shows that the job hung, and what, in words."""
    if timed_out is not None:
        return Sign.SEEN, timed_out
    if job.failed:
        return Sign.SEEN, f"a call of rank {job.failed[0]} was given up"
    ages: dict[int, float] = {}
    for rank, one in job.recorders.items():
        newest = max(one.created, default=0) / 1e9
        if newest and one.written is not None and one.written >= newest:
            ages[rank] = one.written - newest
    if not ages:
        return Sign.UNKNOWN, "the dumps do not tell when they were written"
    oldest = max(ages, key=lambda rank: (ages[rank], -rank))
    seconds = f"{ages[oldest]:,.0f} s"
    if ages[oldest] >= thresholds.STILL_SECONDS:
        return Sign.SEEN, f"the dump of rank {oldest} was written {seconds} after its newest call"
    return Sign.AGAINST, f"all dumps were written at most {seconds} after their newest call"
