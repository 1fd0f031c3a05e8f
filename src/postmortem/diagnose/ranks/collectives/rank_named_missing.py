"""Other ranks name the one that did not come.

What it means
    A monitored barrier, or the watchdogs' comparison, knows who had not arrived when the time
    was over; JAX's coordinator knows from whom it no longer hears.
How to be sure
    The message names the rank; it has no error of its own before.
What to do
    Find out what that rank did meanwhile: its last lines, its stack.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import NamedBy
from postmortem.diagnose.ranks.causes import NamedMissing
from postmortem.diagnose.ranks.phrases import cite, ranks_words, torchrun_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule

_WORDS = {
    NamedBy.BARRIER: ("did not reach the barrier", "did not reach the barrier"),
    NamedBy.ENQUEUED: (
        "is behind: fewer collectives than the others",
        "are behind: fewer collectives than the others",
    ),
    NamedBy.HEARTBEAT: (
        "sends no heartbeats any more: it died, or its host is gone",
        "send no heartbeats any more: they died, or their hosts are gone",
    ),
}


@rule("https://pytorch.org/docs/stable/distributed.html#torch.distributed.monitored_barrier")
def rank_named_missing(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, NamedMissing) or not blame.first:
        return
    who = ranks_words(blame.first)
    words = _WORDS[cause.by][len(blame.first) > 1]
    it, its = ("it", "its") if len(blame.first) == 1 else ("they", "their")
    yield Finding(
        lead=who,
        title=clip(f"{who} {words}", 100),
        cause=f"{who} {words}, say other ranks; what {it} did instead is for {its} own lines to "
        f"tell.{torchrun_words(blame)}",
        confidence=Confidence.LIKELY if len(blame.first) == 1 else Confidence.POSSIBLE,
        next_steps=(
            "read its last lines: postmortem logs --split DIR writes one file per rank",
            "postmortem hang PID  on its host while it hangs",
        ),
        evidence=cite(blame),
    )
