"""What a look at live processes says first."""

from collections.abc import Sequence

from postmortem.diagnose.hang.holding import progresses
from postmortem.diagnose.hang.live_waits import hot_words, place_words, wait_words
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.facts.live import LiveJob
from postmortem.present.headline.grammar import doubt
from postmortem.report.model import Diagnosis, Role


def headline(job: LiveJob, blame: Attribution, diagnoses: Sequence[Diagnosis]) -> str:
    """Return who holds up the job, or how it goes on."""
    best = diagnoses[0] if diagnoses else None
    if best is not None and best.role is Role.ROOT:
        if best.id == "rank_holds_up":
            return f"{doubt(best)}{best.verdict or best.title}"
        return best.verdict or f"{doubt(best)}{best.title}"
    if blame.how is CauseKind.UNDECIDED:
        named = ", ".join(party.words for party in blame.candidates[:8])
        what = "ranks" if any(one.rank is not None for one in job.ranks()) else "processes"
        one = "the candidate is" if len(blame.candidates) == 1 else "candidates are"
        return f"undecided: the {what} stand in different places; {one} {named}"
    if best is not None:
        return best.title
    count = len(job.ranks())
    who = "the process is" if count == 1 else f"all {count} ranks are"
    if job.motions and all(one.goes_on for one in job.motions):
        busy = f"; {hot_words(job.hot_paths[0])}" if count == 1 and job.hot_paths else ""
        return f"{who} progressing: moved or active within {job.watched_seconds:g} s{busy}"
    if progresses(job):
        return "the job is progressing: the ranks that waited in a collective went on"
    if not len(job.stacks):
        return f"no stack of {'it' if count == 1 else f'the {count} processes'} could be read"
    unknown = "; one sample cannot tell stuck from slow" if not job.motions else ""
    thread = job.ranks()[0].main_thread
    if count == 1 and thread is not None:
        does, place = wait_words(job.ranks()[0], thread), place_words(thread, most=1)
        return f"{job.ranks()[0].label} {does}, at {place}{unknown}"
    return f"no rank is seen holding up the others{unknown}"
