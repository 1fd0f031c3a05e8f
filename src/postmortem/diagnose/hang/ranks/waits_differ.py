"""The ranks wait in different places, and none of them is the odd one out.

What it means
    Of two ranks, or two halves of a job, each stands in another call, and none gets on: calls
    that do not match (a barrier here, a receive there), or one that has not come to the others.

How to be sure
    All ranks have to make the same collective calls in the same order: read the two places, and
    what decides which of them a rank comes to. With three ranks or more, most show what is usual.

What to do
    Make what decides (a rank, a step, a length of data) the same on all ranks, or give each send
    its receive.
"""

from postmortem.diagnose.hang.holding import WAITS
from postmortem.diagnose.hang.live_waits import call_words, place_words
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import Undecided
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.live import LiveJob
from postmortem.facts.rank_sets import rank_words
from postmortem.facts.stackdumps import StackClass
from postmortem.text import more

_APART = (
    "Each waits for the others in a call which they are not in. All ranks have to call the same "
    "collectives in the same order, and a receive needs a send."
)
_AWAY = (
    "Who waits cannot get on before the others come; who stands elsewhere is late or stuck, or has "
    "missed a call. With so few ranks nothing shows which of the places is the usual one."
)
_MOST_TOLD = 2
_MOST_CITED = 4


@rule("https://docs.pytorch.org/docs/stable/distributed.html")
def waits_differ(blame: Attribution, job: LiveJob) -> Findings:
    if blame.cause != Undecided(Doubt.STACKS) or any(not one.is_still for one in job.motions):
        return
    told = sorted(job.stacks, key=lambda one: one.members[0].rank or 0)
    waiting = [one for one in told if one.doing in WAITS]
    if not waiting:
        return
    size = next((one.world_size for one in job.ranks()), None)
    complete = bool(job.motions) and size == len(job.ranks())
    apart = len(waiting) == len(told)
    sure = complete and apart
    places = ", ".join(_words(one, waits=one in waiting) for one in told[:_MOST_TOLD])
    places += more(len(told) - _MOST_TOLD, ", and {} more places")
    pids = " ".join(str(one.pid) for one in job.ranks()[:64])
    yield Finding(
        title=clip(places, 100),
        verdict=f"{'' if sure else 'undecided: '}{places}",
        cause=_APART if apart else _AWAY,
        confidence=Confidence.LIKELY if sure else Confidence.POSSIBLE,
        next_steps=(
            "read the two places: what decides which of them a rank reaches?",
            f"look again: postmortem hang {pids} --gap 60: still in the same places means stuck",
            "TORCH_DISTRIBUTED_DEBUG=DETAIL makes the next run say which calls do not match",
        ),
        evidence=tuple(
            Evidence(one.members[0].where, _words(one, waits=one in waiting))
            for one in told[:_MOST_CITED]
        ),
    )


def _words(one: StackClass, *, waits: bool) -> str:
    """Return ``rank 0 waits in barrier at step (train.py:12)``."""
    ranks = [member.rank for member in one.members if member.rank is not None]
    who = f"rank{'s' if len(ranks) > 1 else ''} {rank_words(ranks)}"
    verb = ("wait" if waits else "stand") + ("s" if len(one.members) == 1 else "")
    place = place_words(one.thread, most=1)
    call = call_words(one.thread.frames) if waits else ""
    where = f"{call} at {place}" if call and place else call or place or "code without a name"
    return f"{who if ranks else one.members[0].label} {verb} in {where}"
