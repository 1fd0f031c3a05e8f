"""The loss, or the norm of the gradients, is no number, to the end of the log.

What it means
    Once a weight is NaN no step makes it a number again. A single NaN that goes away is a step
    that a gradient scaler left out, and harmless.
How to be sure
    A checkpoint from before that line is clean, and one from behind it is not.
What to do
    Go back to the last clean checkpoint, and find the module that goes bad first.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import NeverANumber
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/notes/amp_examples.html")
def never_a_number(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, NeverANumber):
        return
    what = clip(blame.cause.quantity, 40)
    since = "line" if not blame.cause.earlier else "or before line"
    yield Finding(
        title=f"{what} is NaN to the end, from {since} {blame.cause.line} on",
        cause=f"The {what} that is printed is NaN, and never a number again.",
        confidence=Confidence.LIKELY,
        next_steps=(
            "postmortem scan DIR  finds the last checkpoint without NaN",
            "run it from there with the monitor, which names the first bad module",
        ),
        evidence=cite(blame),
    )
