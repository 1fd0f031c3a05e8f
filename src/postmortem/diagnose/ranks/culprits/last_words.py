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
from postmortem.knowledge.messages import explained, told


@rule("https://docs.python.org/3/library/traceback.html", yields_to=("one_bad_peer",))
def last_words(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, SaidLast):
        return
    said = blame.cause.said.strip()
    who = blame.candidates[0] if blame.candidates else None
    if who is not None and who.rank is not None:
        said = f"rank {who.rank}: {said}"
    elif who is not None and who.host == who.label:
        said = f"{who.host}: {said}"
    if blame.cause.above and blame.cause.form in ("code", "nccl"):
        said = f"{clip(said, 60)}; just above: {blame.cause.above}"
    cause = "The last lines read like an error, and nothing follows them. "
    if blame.cause.behind:
        cause = "A line near the end reads like an error; what follows it shows no work. "
    means, step = _ADVICE.get(blame.cause.form, _ADVICE[""])
    if blame.cause.ended and not blame.cause.form:
        means = f"{blame.cause.ended[:1].upper()}{blame.cause.ended[1:]}."
    if blame.cause.word:
        cause = _SAID_ELSE.get(blame.cause.form, "What ran it only says that it failed. ")
        means, step = "This is the error above that word.", "read what stands around it"
    if blame.cause.form in ("", "code", "nccl") and blame.cause.first:
        step = "look for what it wrote elsewhere: nothing stands above these lines"
    steps: tuple[str, ...] = (step,)
    if blame.cause.known:
        known = told(blame.cause.known, blame.cause.said) or explained(blame.cause.known)
        means, steps = known.cause, known.next_steps
    if blame.cause.memory:
        means = f"A kill for memory is told of beside it: {clip(blame.cause.memory, 160)}"
        steps = ("fewer workers (num_workers), or more memory for the job",)
    plain = blame.cause.plain or bool(blame.cause.known)
    yield Finding(
        title=said,
        verdict=f"{blame.cause.ended or _UNTOLD}; nearest to an error is: {clip(said, 200)}"
        if blame.cause.behind
        else clip(said, 200),
        cause=cause + means,
        confidence=Confidence.LIKELY if plain else Confidence.POSSIBLE,
        next_steps=steps,
        evidence=cite(blame),
    )


_SAID_ELSE = {
    "peers": "All else only reports a lost peer. ",
    "nccl": "All else is only the code with which a call of NCCL returned. ",
}
_UNTOLD = "nothing here says how it ended"
_ADVICE = {
    "": (
        "No traceback and no launcher says how it ended.",
        "read what stands above these lines, in the whole log with stderr",
    ),
    "usage": (
        "The command line was refused: nothing of the program ran.",
        "compare the arguments with what --help prints in the version that ran",
    ),
    "summary": (
        "It names or counts what failed; why stands above it.",
        "read what stands above it, of the first that failed",
    ),
    "count": (
        "It counts what failed; why stands above it.",
        "read what stands above it, of the first that failed",
    ),
    "launcher": (
        "The launcher says how it ended, and not why.",
        "read what the program wrote, above the launcher's lines or in a log of its own",
    ),
    "code": (
        "It says that something failed, and not why.",
        "look for why in what the command itself wrote, above that line or in a log of its own",
    ),
    "nccl": (
        "It is the code with which a call of NCCL returned: what failed stands in a warning.",
        "look for NCCL WARN above it, on all ranks; NCCL_DEBUG=WARN prints them",
    ),
}
"""By the form of the error: what it means, and what to do."""
