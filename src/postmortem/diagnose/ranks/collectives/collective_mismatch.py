"""A rank called another collective than the others.

What it means
    All ranks of a group must call the same collectives, in the same order, with the same
    shapes and types. Where one differs, all hang or fail.
How to be sure
    TORCH_DISTRIBUTED_DEBUG=DETAIL makes PyTorch compare the calls, and its message names
    them.
What to do
    Go to the call of the rank that differs. Mostly a condition on the rank or on its data
    skips a call.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks import phrases
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import CalledOther
from postmortem.diagnose.rule import Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/distributed.html#torch-distributed-debug")
def collective_mismatch(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, CalledOther) or not blame.first:
        return
    party = blame.first[0]
    who = phrases.ranks_words(blame.first)
    yield Finding(
        lead=who,
        title=clip(f"{who} {party.why}; the others {cause.most}", 100),
        cause=f"{who} {party.why}{phrases.at_frame(party.failure)}, while most others called "
        f"{cause.most}."
        f"{phrases.victims_words(blame)}{phrases.torchrun_words(blame)}",
        confidence=phrases.how_sure(blame),
        next_steps=(
            *phrases.look_at(blame),
            "look for a branch on the rank or on its data before that call: one call is "
            "skipped there",
        ),
        evidence=phrases.cite(blame),
    )
