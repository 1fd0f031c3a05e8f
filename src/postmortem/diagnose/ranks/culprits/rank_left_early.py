"""A rank ended well while the others still needed it.

What it means
    It left its loop earlier, or called sys.exit(0): for its launcher all is well, and its
    peers lose it in the middle of a collective.
How to be sure
    The launcher lists the others as failed, but not this one; it has no error.
What to do
    Compare how many steps each rank runs: uneven data, an early return, a condition on the
    rank.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import LeftEarly
from postmortem.diagnose.ranks.phrases import cite, ranks_words, torchrun_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/tutorials/advanced/generic_join.html")
def rank_left_early(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, LeftEarly) or not blame.first:
        return
    who = ranks_words(blame.first)
    yield Finding(
        lead=who,
        title=clip(f"{who} ended with 0 while the others still waited for a peer", 100),
        cause=f"no launcher lists {who} as failed, and it has no error: it had ended with 0 when "
        f"the others lost their peer.{torchrun_words(blame)}",
        confidence=Confidence.LIKELY if len(blame.first) == 1 else Confidence.POSSIBLE,
        next_steps=(
            "compare the number of steps of each rank: uneven shards, an early return or break",
            "torch.distributed.algorithms.join.Join lets ranks with less data wait for the others",
        ),
        evidence=cite(blame),
    )
