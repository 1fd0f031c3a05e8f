"""Several ranks have different errors of their own, and no order can be trusted.

What it means
    Each could be the first. Clocks of hosts differ, and files have no order among each other.
How to be sure
    Each error stands at the end of a rank's lines, and none is about a peer.
What to do
    Read all of them; @record writes times into error.json, which order the ranks of one host.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import Undecided
from postmortem.diagnose.ranks.phrases import cite, ranks_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/elastic/errors.html")
def undecided_errors(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, Undecided) or cause.doubt is not Doubt.ERRORS:
        return
    who = ranks_words(blame.candidates)
    said = "; ".join(f"{p.words}: {clip(p.why, 120)}" for p in blame.candidates[:4])
    yield Finding(
        title=clip(f"{who} failed in different ways; which came first is not known", 100),
        cause=f"each has an error of its own: {said}.",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            "read each of these tracebacks; they may have one cause",
            "wrap the program's main function with torch.distributed.elastic's @record: it "
            "notes times",
        ),
        evidence=cite(blame),
    )
