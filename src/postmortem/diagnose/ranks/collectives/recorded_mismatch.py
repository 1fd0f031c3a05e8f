"""The flight recorders show which rank left the common order of collectives."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.blame import Blame, How
from postmortem.diagnose.ranks.telling import (
    cite,
    how_sure,
    ranks_words,
    torchrun_words,
    victims_words,
)
from postmortem.diagnose.rule import Finding, rule
from postmortem.report.model import Role


@rule(
    role=Role.ROOT,
    references=("https://pytorch.org/tutorials/prototype/flight_recorder_tutorial.html",),
)
def recorded_mismatch(blame: Blame) -> Iterator[Finding]:
    """The flight recorders show which rank left the common order of collectives.

    What it means
        The dumps have the last collectives of each rank, with numbers that are equal on all. At
        the first number where the ranks part, the few did something else, or never came.
    How to be sure
        The calls of that number are cited, with the line of the program where the dump has it.
    What to do
        Go to that line. A condition on the rank or on its data skips or adds a call before it; a
        rank that never came is late or stuck: take its stack.
    """
    if blame.how is not How.RECORDED or not blame.first:
        return
    who = ranks_words(blame.first)
    why = blame.first[0].why
    behind = why.startswith("never came")
    steps = (
        (
            "py-spy dump --native --pid PID  of that rank while it hangs: what keeps it from "
            "the call?",
            "its last call is cited: the next one in the program is where it did not arrive",
        )
        if behind
        else (
            "look for a branch on the rank or on its data before that call: one call is skipped or "
            "added there",
            "TORCH_DISTRIBUTED_DEBUG=DETAIL makes PyTorch compare the calls as they are made",
        )
    )
    yield Finding(
        title=clip(f"{who} {why.partition('; ')[0]}", 100),
        cause=f"{who} {why}."
        + ("" if behind else f" The others called {blame.detail}.")
        + f"{victims_words(blame)}{torchrun_words(blame)}",
        confidence=how_sure(blame),
        next_steps=steps,
        evidence=cite(blame),
    )
