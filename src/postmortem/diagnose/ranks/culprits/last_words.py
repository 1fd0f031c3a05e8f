"""The last lines of a process read like an error, and nothing stands behind them.

What it means
    No traceback, signal or launcher says how it ended. An error that a program survives is
    followed by its work; behind this one stands nothing but what goes on with it.
How to be sure
    The whole log, with stderr, has the traceback or the launcher's word on how it ended.
What to do
    Read the lines that are cited; what they advise comes before any other advice.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import SaidLast
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://docs.python.org/3/library/traceback.html")
def last_words(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, SaidLast):
        return
    said = blame.cause.said.strip()
    cause = "The last lines read like an error, and nothing follows them. "
    if blame.cause.behind:
        cause = "A line near the end reads like an error; what follows it shows no work. "
    yield Finding(
        title=clip(said, 100),
        verdict=f"nothing here says how it ended; nearest to an error is: {clip(said, 200)}"
        if blame.cause.behind
        else None,
        cause=cause + "No traceback and no launcher says how it ended.",
        confidence=Confidence.LIKELY if blame.cause.plain else Confidence.POSSIBLE,
        next_steps=(
            "look at the whole log, with stderr: the cause may stand above what was copied",
        ),
        evidence=cite(blame),
    )
