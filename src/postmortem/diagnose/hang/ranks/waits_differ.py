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
from postmortem.facts.live import LiveJob, SystemCall
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
_CIRCLE = (
    "The one waits for a lock that the other holds, and that one waits in a call to which the "
    "first has not come: a circle, whatever more there is."
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
    circle = any(_holds(one, waiting, job) for one in told if one not in waiting)
    sure = (complete and apart) or circle
    places = ", ".join(_words(one, job, waits=one in waiting) for one in told[:_MOST_TOLD])
    places += more(len(told) - _MOST_TOLD, ", and {} more")
    pids = " ".join(str(one.pid) for one in job.ranks()[:64])
    yield Finding(
        title=clip(places, 100),
        verdict=f"{'' if sure else 'undecided: '}{places}",
        cause=_APART if apart else _CIRCLE if circle else _AWAY,
        confidence=Confidence.LIKELY if sure else Confidence.POSSIBLE,
        next_steps=(
            "read the two places: what decides which of them a rank reaches?",
            f"look again: postmortem hang {pids} --gap 60: still in the same places means stuck",
            "TORCH_DISTRIBUTED_DEBUG=DETAIL makes the next run say which calls do not match",
        ),
        evidence=tuple(
            Evidence(one.members[0].where, _words(one, job, waits=one in waiting))
            for one in told[:_MOST_CITED]
        ),
    )


def _holds(one: StackClass, waiting: list[StackClass], job: LiveJob) -> bool:
    """Return whether a process of a class waits for the lock of a file that one who waits holds."""
    pids = {job.process(m.label) for other in waiting for m in other.members}
    held = {process.pid for process in pids if process is not None}
    calls = (_call(job, member.label) for member in one.members)
    return any(call is not None and not held.isdisjoint(call.holders) for call in calls)


def _call(job: LiveJob, label: str) -> SystemCall | None:
    process = job.process(label)
    task = process.task(process.pid) if process is not None else None
    return task.call if task is not None else None


def _words(one: StackClass, job: LiveJob, *, waits: bool) -> str:
    """Return ``rank 0 waits in barrier at step (train.py:12)``."""
    ranks = [member.rank for member in one.members if member.rank is not None]
    who = f"rank{'s' if len(ranks) > 1 else ''} {rank_words(ranks)}"
    who = who if ranks else one.members[0].label
    place = place_words(one.thread, most=1)
    call = _call(job, one.members[0].label)
    if not waits and len(one.members) == 1 and call is not None and call.name != "futex":
        return f"{who} {call.words}" + (f", at {place}" if place else "")
    verb = ("wait" if waits else "stand") + ("s" if len(one.members) == 1 else "")
    name = call_words(one.thread.frames) if waits else ""
    where = f"{name} at {place}" if name and place else name or place or "code without a name"
    return f"{who} {verb} in {where}"
