"""A rank never came when the job started.

What it means
    The others waited in init_process_group until the time was over. The rank was never
    started, or ended before it could say anything.
How to be sure
    The store counts those that came: 3/4 clients joined.
What to do
    Find out whether its process was ever started.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import CouldNotStart, NeverJoined
from postmortem.diagnose.ranks.phrases import cite, ranks_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/distributed.html#initialization")
def rank_never_joined(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, CouldNotStart | NeverJoined):
        return
    if cause.fault is not StartupFault.MISSING:
        return
    known = bool(blame.first)
    who = ranks_words(blame.first) if known else "a rank"
    yield Finding(
        lead=who,
        title=clip(f"{who} never joined the job", 100),
        cause=f"the others waited for {who} when the job started",
        confidence=Confidence.LIKELY,
        next_steps=(
            "look whether its process was started at all: the scheduler, the host's launcher",
            "check WORLD_SIZE and RANK of each process: if it is too large, they wait for nobody",
        ),
        evidence=cite(blame),
    )
