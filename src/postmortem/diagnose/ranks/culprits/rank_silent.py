"""One rank has no error at all while all others wait for it.

What it means
    It was late, stuck or busy with something else; what it did is in no log.
How to be sure
    All other ranks report a time-out or a lost connection, and this one does not.
What to do
    Get its stack while it hangs: postmortem hang on its host; or let postmortem run take those
    of all ranks.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import SilentAlone
from postmortem.diagnose.ranks.phrases import cite, ranks_words, torchrun_words, victims_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/tutorials/prototype/flight_recorder_tutorial.html")
def rank_silent(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, SilentAlone) or not blame.first:
        return
    who = ranks_words(blame.first)
    halted = blame.cause.halted
    words = "has no error, while all others wait for a peer"
    means = "it was late, stuck, or ended by its launcher before it could say why"
    if halted:
        words = "was stopped by a signal (process state T), and all others wait for a peer"
        means = "its process neither ran nor ended; who sent SIGSTOP or SIGTSTP is not told"
    yield Finding(
        lead=who,
        title=clip(f"{who} {words}", 100),
        cause=f"{who} is the only one that reports nothing: {means}."
        f"{victims_words(blame)}{torchrun_words(blame)}",
        confidence=Confidence.LIKELY,
        next_steps=(
            *(("kill -CONT PID  lets it go on; did a debugger or a shell stop it?",) * halted),
            "postmortem hang PID  on its host while it hangs",
            "the next time, postmortem run --timeout 600 -- CMD takes the stacks of all ranks",
            "TORCH_FR_BUFFER_SIZE=2000 keeps the last collectives of each rank to compare",
        ),
        evidence=cite(blame),
    )
