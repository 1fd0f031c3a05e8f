"""Ranks whose recorder never saw calls end that must have ended there too.

A peer has ended a later collective of the group, in which everybody takes part: so the device of
this rank did run it, and nobody took note any more. Its device failed, or its watchdog is stuck.
"""

from postmortem import thresholds
from postmortem.diagnose.jam.calls import Call
from postmortem.diagnose.jam.findings import Findings, Op
from postmortem.diagnose.jam.jam import StoppedNoting
from postmortem.diagnose.jam.job import Job


def leave_out_lagging(job: Job, findings: Findings) -> None:
    """Blame such ranks; their calls up to there hold nobody, and count as open no more."""
    most: dict[int, tuple[list[Call], int]] = {}
    through: dict[int, int] = {}
    for group in job.groups:
        if len(group.completed) < 2:
            continue
        top = max(group.completed.values())
        ahead = min(rank for rank, number in group.completed.items() if number == top)
        for rank, number in group.completed.items():
            if number >= top:
                continue
            mine = [
                call
                for call in job.calls[rank]
                if call.open and call.group is group and not call.kind.p2p and call.number <= top
            ]
            if len(mine) < thresholds.BEHIND_CALLS or not any(
                call.kind.symmetric for call in mine[1:]
            ):
                continue
            if rank not in most or len(mine) > len(most[rank][0]):
                most[rank] = mine, ahead
            through[rank] = max(through.get(rank, 0), mine[-1].at)
    for rank, (calls, ahead) in sorted(most.items()):
        op = Op(calls[0].group, calls[0].number)
        op.calls[rank] = calls[0]
        findings.blame(rank, StoppedNoting(len(calls), ahead), op)
    for rank, at in through.items():
        for call in job.calls[rank]:
            if call.at <= at and call.open:
                call.open, call.group.completed[rank] = False, _completed(call, rank)


def _completed(call: Call, rank: int) -> int:
    known = call.group.completed.get(rank, -1)
    return known if call.kind.p2p else max(known, call.number)
