"""The driver confirms that a program's own access made the GPU fail.

What it means
    An Xid such as 13 or 31 is the other half of the rank's CUDA error: a kernel of the program
    used an address that it may not. The GPU itself is mostly well.
How to be sure
    The Xid names the pid or the GPU of the rank that failed first, or stands in the log of its
    host.
What to do
    Run that rank's program under compute-sanitizer. The same GPU over and over, with programs
    that run elsewhere: suspect the GPU.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.kernel.words import cite_tie, joined, meaning, program_ties, steps_of
from postmortem.diagnose.ranks.kernel_matches import MatchKey
from postmortem.diagnose.ranks.phrases import ranks_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.knowledge.xids import REFERENCE


@rule(REFERENCE, role=Role.CONTRIBUTING)
def gpu_fault_of_program(blame: Attribution) -> Findings:
    ours = program_ties(blame)
    if not ours:
        return
    tie = min(ours, key=lambda one: list(MatchKey).index(one.by))
    named = tie.by in (MatchKey.PID, MatchKey.GPU)
    who = ranks_words(blame.first)
    yield Finding(
        title=f"the driver saw it too: {tie.event.words}",
        cause=f"{meaning(tie)} It matches the error of {who}.{joined(tie)}",
        confidence=Confidence.LIKELY if named else Confidence.POSSIBLE,
        next_steps=steps_of(tie),
        evidence=tuple(cite_tie(one) for one in ours[:6]),
    )
