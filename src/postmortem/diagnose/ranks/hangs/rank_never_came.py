"""Ranks did not come, or came late, to a collective that all others wait in.

What it means
    Who waits for whom is followed over all process groups, by the flight recorders of all
    ranks. Most ranks that are behind are victims, which wait in another group themselves. These
    wait for nobody: their program is elsewhere, or they ended without a dump.
How to be sure
    Each is named with the call that it never came to; its own dump has no call open that could
    hold it. Who came late is told by the time of its call.
What to do
    Take the stack of these ranks while they hang; read the last lines of those without a dump.
"""

from postmortem.diagnose.jam.jam import CameLate, NeverCame, NoDump
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.jammed import jam_finding
from postmortem.diagnose.rule import Findings, rule


@rule("https://pytorch.org/tutorials/prototype/flight_recorder_tutorial.html")
def rank_never_came(blame: Attribution) -> Findings:
    yield from jam_finding(
        blame,
        (NeverCame, CameLate, NoDump),
        (
            "postmortem hang PID  of these ranks while they hang: what keeps them from the call?",
            "read their last lines: postmortem logs --split DIR writes one file per rank",
        ),
    )
