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
    if blame.candidates and (rank := blame.candidates[0].rank) is not None:
        said = f"rank {rank}: {said}"
    if blame.cause.above:
        said = f"{clip(said, 60)}; just above: {blame.cause.above}"
    cause = "The last lines read like an error, and nothing follows them. "
    if blame.cause.behind:
        cause = "A line near the end reads like an error; what follows it shows no work. "
    means, step = _ADVICE.get(blame.cause.form, _ADVICE[""])
    if not blame.cause.form and blame.cause.whole:
        step = "look for what it wrote elsewhere: nothing stands above these lines"
    if blame.cause.memory:
        means = f"A kill for memory is told of beside it: {clip(blame.cause.memory, 160)}"
        step = "fewer workers (num_workers), or more memory for the job"
    yield Finding(
        title=clip(said, 100),
        verdict=f"nothing here says how it ended; nearest to an error is: {clip(said, 200)}"
        if blame.cause.behind
        else None,
        cause=cause + means,
        confidence=Confidence.LIKELY if blame.cause.plain else Confidence.POSSIBLE,
        next_steps=(step,),
        evidence=cite(blame),
    )


_ADVICE = {
    "": (
        "No traceback and no launcher says how it ended.",
        "look at the whole log, with stderr: the cause may stand above what was copied",
    ),
    "usage": (
        "The command line was refused: nothing of the program ran.",
        "compare the arguments with what --help prints in the version that ran",
    ),
    "code": (
        "A code says that something failed, and not why.",
        "look for why in what the command itself wrote, above that line or in a log of its own",
    ),
}
"""By the form of the error: what it means, and what to do."""
