"""Ranks disagree on a collective, and the logs do not say who is wrong.

What it means
    Two ranks, or two halves, called different things; there is no majority. Or a message had
    the wrong size, and either its sender or its receiver is wrong.
How to be sure
    The messages name both sides.
What to do
    Run with TORCH_DISTRIBUTED_DEBUG=DETAIL and three ranks or more, or compare flight-
    recorder dumps.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import Undecided
from postmortem.diagnose.ranks.phrases import cite, ranks_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule

_TITLES = {
    Doubt.SIZES: "{who} disagree: a message has the wrong size",
    Doubt.STACKS: "{who} and others stand in different places, and neither side is the larger one",
    Doubt.SITES: "{who} disagree: they wait elsewhere than the others",
    Doubt.COLLECTIVES: "{who} disagree: different collectives: {what}",
}


@rule("https://pytorch.org/docs/stable/distributed.html#torch-distributed-debug")
def undecided_mismatch(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, Undecided) or blame.cause.doubt not in _TITLES:
        return
    who = ranks_words(blame.candidates)
    what = " and ".join(dict.fromkeys(clip(p.why, 60) for p in blame.candidates[:2]))
    said = "; ".join(f"{p.words}: {clip(p.why, 100)}" for p in blame.candidates[:2])
    title = _TITLES[blame.cause.doubt].format(who=who, what=what)
    yield Finding(
        title=clip(title, 100),
        cause=f"{said}. No third rank votes: which of them is wrong cannot be decided from these "
        "logs.",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            "TORCH_DISTRIBUTED_DEBUG=DETAIL names the collectives, shapes and types of all ranks",
            "TORCH_FR_BUFFER_SIZE=2000 keeps the last collectives of each rank: compare the dumps",
        ),
        evidence=cite(blame),
    )
