"""A background thread of a rank died, and the rank was missed.

What it means
    Python prints the exception of a thread and goes on; the main thread waits for what the
    thread would have brought, and all other ranks wait for that rank.
How to be sure
    Exception in thread stands in its log, and the others report a time-out.
What to do
    Let the thread's error reach the main thread: a queue, concurrent.futures,
    threading.excepthook.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks import phrases
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import ThreadDied
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://docs.python.org/3/library/threading.html#threading.excepthook")
def rank_thread_died(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, ThreadDied) or not blame.first:
        return
    party = blame.first[0]
    who = phrases.ranks_words(blame.first)
    yield Finding(
        title=clip(f"a thread of {who} died of {party.why}", 100),
        cause=f"a thread of {who} raised {clip(party.why, 300)}{phrases.at_frame(party.failure)}; "
        f"the process "
        f"lived on without it.{phrases.victims_words(blame)}{phrases.torchrun_words(blame)}",
        confidence=Confidence.LIKELY if len(blame.first) == 1 else Confidence.POSSIBLE,
        next_steps=(
            *phrases.look_at(blame),
            "let the error of a thread end its process: set threading.excepthook, or use futures",
        ),
        evidence=phrases.cite(blame),
    )
