"""The flight recorders show which ranks left the common order of collectives.

What it means
    The dumps have the last collectives of each rank, with numbers that are equal on all ranks
    of a group. Under one number the few called another operation, type or size than the rest,
    or they wait in a call that the others had not made yet.
How to be sure
    The calls of that number are cited, with the line of the program where the dump has it.
What to do
    Go to that line. A condition on the rank or on its data skips or adds a call before it.
"""

from postmortem.diagnose.jam.jam import CalledOther, OutOfOrder
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.jammed import jam_finding
from postmortem.diagnose.rule import Findings, rule


@rule("https://pytorch.org/tutorials/prototype/flight_recorder_tutorial.html")
def recorded_mismatch(blame: Attribution) -> Findings:
    yield from jam_finding(
        blame,
        (CalledOther, OutOfOrder),
        (
            "look for a branch on the rank or on its data before that call: one call is skipped or "
            "added there",
            "TORCH_DISTRIBUTED_DEBUG=DETAIL makes PyTorch compare the calls as they are made",
        ),
    )
