"""Flight recorders of a job that may well run: nothing shows that it stood still.

What it means
    Ranks of a job that runs wait for each other all the time, and a dump of that moment looks
    like a hang.
How to be sure
    A rank that hangs makes no calls: its dump, written ten seconds later, is older than its
    file by that much. A time-out in a log says it too.
What to do
    Take the dumps again: the same calls at the same ranks are a hang.
"""

from postmortem.diagnose.jam.jam import Sign
from postmortem.diagnose.jam.words import culprit_words
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.text import more


@rule("https://pytorch.org/tutorials/prototype/flight_recorder_tutorial.html", role=Role.CONTEXT)
def no_sign_of_hang(blame: Attribution) -> Findings:
    jam = blame.jam
    if blame.how is not CauseKind.NOTHING or jam is None or jam.sign is not Sign.AGAINST:
        return
    found = (*jam.culprits, *jam.candidates)
    who = f"rank {found[0].rank} {culprit_words(found[0])}" if found else "nobody stands out"
    others = more(len(found) - 1, ", and {} more")
    yield Finding(
        title=f"no sign of a hang; if the job hangs, {who}{others}",
        cause=f"{jam.waiting:,} ranks wait for others, as ranks of a job that runs do: "
        f"{jam.sign_words}. If it hangs nevertheless: {who}{others}.",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            "take the dumps again in some seconds: the same calls at the same ranks are a hang",
        ),
        evidence=(Evidence("flight recorders", jam.sign_words),),
    )
