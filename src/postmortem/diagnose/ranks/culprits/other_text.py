"""What was given as a log is a text of another kind.

What it means
    Most of its last lines have the form of a stack of gdb, of strace's calls, or of source.
    Nothing was concluded from them.
How to be sure
    Look at the line that is cited.
What to do
    Give the file to the command that reads it.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import OtherText
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule

_KINDS = {
    "stack": (
        "a stack as gdb prints it",
        "postmortem core CORE  reads the core file itself, with its Python frames",
    ),
    "strace": ("a log of system calls", "postmortem strace FILE  reads it"),
    "source": (
        "the source of a program",
        "name the file that the program wrote: its stderr, or the log of its launcher",
    ),
}


@rule("https://sourceware.org/gdb/current/onlinedocs/gdb/")
def other_text(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, OtherText):
        return
    what, step = _KINDS[blame.cause.kind]
    frame = blame.cause.frame
    yield Finding(
        title=f"this is {what}, not the log of a job",
        verdict=f"this is {what}, not the log of a job; it stands in: {frame}" if frame else None,
        cause=f"Most of the last lines have the form of {what}. Whether anything failed was not "
        "looked for.",
        confidence=Confidence.LIKELY,
        next_steps=(step,),
        evidence=cite(blame),
    )
