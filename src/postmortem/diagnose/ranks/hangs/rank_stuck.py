"""A rank stands elsewhere while the others wait for it.

What it means
    Nearly all ranks stand in the same collective: that is what waiting looks like. Who stands
    elsewhere has not come to it, and holds up all.
How to be sure
    Take the stacks again some seconds later. Who stands in the same place is stuck; who has
    moved is slow.
What to do
    Read that rank's stack: a lock, a file system, a child process, an endless loop.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import StandsElsewhere
from postmortem.diagnose.ranks.phrases import cite, possible_steps, ranks_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.rank_logs import RankLogs
from postmortem.report.model import Subject

_MOST_TOLD = 2


@rule(
    "https://github.com/benfred/py-spy#how-do-i-find-out-what-a-hanging-program-is-doing",
    "https://docs.python.org/3/library/faulthandler.html",
)
def rank_stuck(blame: Attribution, logs: RankLogs) -> Findings:
    cause = blame.cause
    if not isinstance(cause, StandsElsewhere) or not blame.first:
        return
    who = ranks_words(blame.first)
    once = logs.stacks is not None and logs.stacks.samples < 2
    members = (member for one in logs.stacks or () for member in one.members)
    pid = next((one.pid for one in members if one.label == blame.first[0].label), None)
    again = (
        "take the stacks of these ranks again: still in the same place means stuck, else only slow",
    )
    steps = possible_steps(
        blame,
        (
            *(again if once else ()),
            "read the code there: what must happen for it to go on?",
            "postmortem hang PID  on its host: which lock, file or child?",
            "ls -l /proc/PID/fd; cat /proc/PID/wchan; strace -f -p PID -o strace.txt  for a few "
            "seconds: what does the kernel wait for?",
        ),
    )
    yield Finding(
        lead=who,
        title=f"{who}{_standing(blame)}",
        verdict=f"{who}{_standing(blame)}" if len(blame.first) > 1 else None,
        cause=f"the others wait at {cause.most}."
        + (" One sample cannot tell stuck from slow." if once else ""),
        confidence=Confidence.CERTAIN if blame.sure else Confidence.LIKELY,
        next_steps=steps,
        about=Subject(pid=pid) if pid else None,
        evidence=cite(blame),
    )


def _standing(blame: Attribution) -> str:
    """Return where they stand, each alone where they stand apart."""
    one = blame.first[0].why
    if len(blame.first) == 1:
        return f" {one}"
    if all(party.why == one for party in blame.first):
        return f": each {one}"
    return ": " + "; ".join(f"{party.words} {party.why}" for party in blame.first[:_MOST_TOLD])
