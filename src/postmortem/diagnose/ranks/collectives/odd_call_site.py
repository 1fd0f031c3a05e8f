"""A rank waits in another place of the program than the others.

What it means
    When all ranks wait and one waits elsewhere, the ranks have lost step: it skipped a
    collective, or called one too many.
How to be sure
    The tracebacks of more than half of the ranks end at the same line, or their watchdogs name
    the same collective; this one's does not.
What to do
    Compare the two lines, and find the branch that leads to the one but not to the other.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import WaitsElsewhere
from postmortem.diagnose.ranks.phrases import (
    cite,
    look_at,
    ranks_words,
    torchrun_words,
    victims_words,
)
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/distributed.html#torch-distributed-debug")
def odd_call_site(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, WaitsElsewhere) or not blame.first:
        return
    most = cause.most + (", if all are of one group" if cause.if_one_group else "")
    who = ranks_words(blame.first)
    yield Finding(
        lead=who,
        title=clip(f"{who} {blame.first[0].why}; the others in {most}", 100),
        cause=f"{who} {blame.first[0].why}, while most others wait in {most}: they "
        f"are not in "
        f"the same collective.{victims_words(blame)}{torchrun_words(blame)}",
        confidence=Confidence.POSSIBLE if cause.if_one_group else Confidence.LIKELY,
        next_steps=(
            *look_at(blame),
            "TORCH_DISTRIBUTED_DEBUG=DETAIL compares the calls of all ranks, and names who differs",
        ),
        evidence=cite(blame),
    )
