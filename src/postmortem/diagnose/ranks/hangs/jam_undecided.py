"""All wait for each other by the flight recorders, and nothing tells who began.

What it means
    All ranks of a group have called the same, and it does not end: the network between them, or
    one of their devices. Or ranks disagree and no side is larger, wait in a ring, or lack one
    of several ranks without a dump.
How to be sure
    Each operation is named with the ranks that are in it.
What to do
    Run with TORCH_NCCL_ENABLE_TIMING=1, which tells whose device has not begun; look at the
    network and at the kernel logs of these hosts; give the dumps of all ranks.
"""

from postmortem.diagnose.jam.jam import Jam, NoDump, Sign
from postmortem.diagnose.jam.words import operation_words, ranks_and
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.rank_sets import rank_words


@rule("https://pytorch.org/tutorials/prototype/flight_recorder_tutorial.html")
def jam_undecided(blame: Attribution) -> Findings:
    jam = blame.jam
    if blame.how is not CauseKind.UNDECIDED or jam is None or jam.disagree:
        return
    doubt = f" If the job hangs at all: {jam.sign_words}." if jam.sign is Sign.UNKNOWN else ""
    told = "; ".join(
        f"ranks {rank_words(one.ranks)} are in {operation_words(one.operation)}"
        for one in jam.unended[:4]
    )
    told = f"{told}, and " if len(jam.unended) > 1 else ""
    yield Finding(
        title=_title(jam),
        cause=f"{told}nothing in the dumps tells who began.{doubt}",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            "TORCH_NCCL_ENABLE_TIMING=1 makes the dumps tell whose device has not begun",
            "look at the network and at dmesg of the hosts of these ranks",
            "give the dumps of all ranks, and their stacks: postmortem hang PID --json",
        ),
        evidence=cite(blame),
    )


def _title(jam: Jam) -> str:
    if jam.unended:
        first = jam.unended[0]
        call = "a call" if first.operation.call is None else first.operation.call.operation
        where = f"{call}, number {first.operation.number} of group {first.operation.group}"
        return f"ranks {rank_words(first.ranks)} are all in {where}, which does not end"
    lost = [one.rank for one in jam.candidates if isinstance(one.cause, NoDump)]
    if lost:
        return f"{ranks_and(lost)}, without a dump, may hold up the others"
    if jam.candidates:
        who = ranks_and([one.rank for one in jam.candidates])
        one = len(jam.candidates) == 1
        return f"{who} {'waits for ranks that wait for it' if one else 'wait for each other'}"
    return f"{jam.waiting:,} ranks wait, and no dump tells for whom"
