"""NaN or Inf came up in a module of the model."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.facts.blame import Blame, How
from postmortem.report.model import Role
from postmortem.rules.logs.telling import cite, how_sure, ranks_words
from postmortem.rules.names import clip
from postmortem.rules.rule import Finding, rule


@rule(
    role=Role.ROOT,
    references=(
        "https://huggingface.co/docs/transformers/debugging#underflow-and-overflow-detection",
    ),
)
def numbers_first_bad(blame: Blame) -> Iterator[Finding]:
    """NaN or Inf came up in a module of the model.

    What it means
        The numerics monitor keeps the last calls of modules of each rank in a file. The first one
        with a NaN or an Inf that no mask explains is where the numbers went bad.
    How to be sure
        Inputs and weights of that call are in the file too: if they were clean, that module made
        the bad numbers.
    What to do
        Run that module in float32, or look at what its inputs grew to in the frames before.
    """
    if blame.how is not How.NUMBERS or not blame.first:
        return
    who = ranks_words(blame.first)
    why = blame.first[0].why
    yield Finding(
        title=clip(f"{who}: {why.partition(': ')[0]}", 100),
        cause=f"{who}: {why}.",
        confidence=how_sure(blame),
        next_steps=(
            "look at the frames below: how did the extremes of that module's inputs grow?",
            "run that module with autocast off, or in bfloat16 in place of float16",
            "postmortem scan the last checkpoints: are weights bad already?",
        ),
        evidence=cite(blame),
    )
