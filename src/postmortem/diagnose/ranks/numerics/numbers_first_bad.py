"""NaN or Inf came up in a module of the model.

What it means
    The numerics monitor keeps the last calls of modules of each rank in a file. The first one
    with a NaN or an Inf that no mask explains is where the numbers went bad. Without it, the rank
    whose own loss is NaN at a step at which other ranks print a number had it first.
How to be sure
    Inputs and weights of that call are in the file too: if they were clean, that module made
    the bad numbers.
What to do
    Run that module in float32, or look at what its inputs grew to in the frames before. Where a
    weight, a gradient or the data was bad already, look there.
"""

from postmortem.diagnose.numerics.first_bad import Origin
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import NumbersWentBad
from postmortem.diagnose.ranks.phrases import cite, how_sure, ranks_words
from postmortem.diagnose.rule import Finding, Findings, rule

_SCAN = "postmortem scan the last checkpoints: which is the last whose weights are clean?"
_MONITOR = "postmortem run --numerics -- CMD names the first module whose numbers are bad"
_OF_A_MODULE = (
    "look at the module's last frames (-v): how did the extremes of that module's inputs grow?",
    "run that module with autocast off, or in bfloat16 in place of float16",
    "postmortem scan the last checkpoints: are weights bad already?",
)
_STEPS = {
    Origin.WEIGHT: (
        _SCAN,
        "look at what wrote it: learning rate, clipping, the optimizer's state, a loaded state",
        "train from a clean checkpoint with NumericsMonitor(optimizer_state=1): it names the state",
    ),
    Origin.BATCH: (
        "look at the data of that batch: which sample holds NaN or Inf?",
        "check where samples are read, scaled (a division by 0?) and collated",
    ),
    Origin.GRADIENT: (
        "look at the loss of that batch: log of 0, 0/0, no label that counts?",
        "look at the backward pass of that module: sqrt, norm and division at 0",
        "clip gradients, and use a GradScaler in float16",
    ),
    Origin.STATE: (
        "look at that weight's gradients before: the square of a large one is Inf",
        _SCAN,
    ),
}


@rule("https://huggingface.co/docs/transformers/debugging#underflow-and-overflow-detection")
def numbers_first_bad(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, NumbersWentBad) or not blame.first:
        return
    who = ranks_words(blame.first)
    why = blame.first[0].why
    if cause.first_bad is None:
        yield Finding(
            title=f"{who}: {why}",
            cause=f"{who}: {why}, while others still printed numbers. What is summed over all "
            "ranks is bad on each of them after that: who raised is not who began.",
            confidence=how_sure(blame),
            next_steps=(*_STEPS[Origin.BATCH], _MONITOR),
            evidence=cite(blame),
        )
        return
    origin = cause.first_bad.origin
    since = cause.first_bad.hints[-1:] if origin is Origin.WEIGHT else ()
    yield Finding(
        title=f"{who}: {cause.first_bad.brief}",
        cause=f"{'; '.join((cause.first_bad.extent, *since))}.",
        confidence=how_sure(blame),
        next_steps=_STEPS.get(origin, _OF_A_MODULE),
        evidence=cite(blame),
    )
