"""Few ranks stand in another place than all others, over all nodes.

What it means
    In a job that hangs the many wait for the few. A single look cannot tell whether these are
    stuck or on their way: the nodes' own reports say who moved.
How to be sure
    `postmortem hang` on the node named, and once more after a minute.
What to do
    Look at what the odd ranks do: their innermost frame is in the evidence.
"""

from postmortem import thresholds
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.fleet import Fleet, Standing
from postmortem.facts.host_names import short
from postmortem.facts.rank_sets import rank_words
from postmortem.text import counted

_MOST = 6


@rule()
def odd_ranks(seen: Fleet) -> Findings:
    ranks = sum(one.count for one in seen.part.standing)
    large = max(seen.part.standing, key=lambda one: one.count, default=None)
    if large is None or large.count < 2 or large.count * 2 <= ranks:
        return
    few = [
        one
        for one in seen.part.standing
        if one is not large and one.count <= max(1, thresholds.ODD_SHARE * ranks)
    ]
    for one in sorted(few, key=lambda one: (one.count, one.ranks))[:_MOST]:
        who = _who(one)
        yield Finding(
            title=f"{who} in {_place(one)}, {large.count:,} of {ranks:,} ranks in {_place(large)}",
            cause=f"{who} ({short(one.nodes)}) in {one.doing or _place(one)}, while "
            f"{large.count:,} of {ranks:,} ranks stand in {large.doing or _place(large)}: "
            "these likely wait for it.",
            confidence=Confidence.LIKELY if len(few) == 1 else Confidence.POSSIBLE,
            next_steps=(f"postmortem hang --gap 60 on {one.nodes[0]}: does it move?",),
            evidence=(
                Evidence(who, " <- ".join(one.frames[:4])),
                Evidence(counted(large.count, "rank"), " <- ".join(large.frames[:4])),
            ),
            about=Subject(host=one.nodes[0], rank=one.ranks[0] if len(one.ranks) == 1 else None),
        )


def _who(one: Standing) -> str:
    if not one.ranks:
        return f"{counted(one.count, 'process', 'processes')} on {short(one.nodes)} stand"
    if len(one.ranks) == 1:
        return f"rank {one.ranks[0]} on {one.nodes[0]} stands"
    return f"ranks {rank_words(one.ranks, most=6)} stand"


def _place(one: Standing) -> str:
    return one.frames[0][:80] if one.frames else "no frame that could be read"
