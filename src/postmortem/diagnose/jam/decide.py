"""The steps from dumps to who holds up the job, each leaving out what those before it blamed."""

from collections.abc import Sequence

from postmortem.diagnose.jam.findings import Findings
from postmortem.diagnose.jam.graph import Graph
from postmortem.diagnose.jam.jam import Jam, Sign, Unended
from postmortem.diagnose.jam.job import Job, sign_of_hang
from postmortem.diagnose.jam.lag import leave_out_lagging
from postmortem.diagnose.jam.mismatch import mismatches
from postmortem.diagnose.jam.stuck import came_late, never_came
from postmortem.diagnose.jam.undumped import Undumped
from postmortem.diagnose.jam.unended import ending_ops, ends, operations_that_do_not_end, rings
from postmortem.facts.confidence import Confidence
from postmortem.facts.flight_recorder import Recorder
from postmortem.records import replace

_LESS = {
    Confidence.CERTAIN: Confidence.LIKELY,
    Confidence.LIKELY: Confidence.POSSIBLE,
    Confidence.POSSIBLE: Confidence.POSSIBLE,
}
"""Where some of the waiting ranks wait for something else."""


def find_jam(
    recorders: Sequence[Recorder],
    *,
    world: int | None = None,
    timed_out: str | None = None,
    went_on: bool = False,
) -> Jam | None:
    """Return who holds up a job; None where nobody waits, or without dumps. Deterministic.

    `world` is the number of ranks, where it is known; `timed_out` says which log tells of a
    time-out, `went_on` that the job was at work then, or came to its end behind the dumps.
    """
    if not recorders:
        return None
    job = Job(sorted(recorders, key=lambda one: one.rank), world)
    findings = Findings()
    leave_out_lagging(job, findings)
    mismatches(job, findings)
    graph = Graph(job)
    blamed = set(findings.culprits)
    never_came(graph, findings)
    came_late(graph, findings, blamed)
    operations_that_do_not_end(graph, findings, blamed)
    Undumped(graph, findings).blame()
    rings(graph, findings)
    return _jam(graph, findings, sign_of_hang(job, timed_out, went_on=went_on))


def _jam(graph: Graph, findings: Findings, sign: tuple[Sign, str]) -> Jam | None:
    reached = graph.reach(ends(graph, findings), ending_ops(graph, findings))
    waiting = graph.waiting
    explained = waiting & reached
    culprits, candidates = findings.told(_holds_up(graph, findings))
    if not waiting and not culprits and not candidates:
        return None
    if len(explained) < len(waiting):
        culprits = tuple(replace(one, sure=_LESS[one.sure]) for one in culprits)
    named = {rank for group in graph.job.groups for rank in group.members}
    return Jam(
        culprits=culprits,
        candidates=candidates,
        unended=tuple(Unended(op.told(), tuple(sorted(op.calls))) for op in findings.unended),
        waiting=len(waiting),
        explained=len(explained),
        held_up=len(explained - findings.culprits.keys()),
        seen=len(graph.job.recorders),
        unseen=len(named - graph.job.recorders.keys()),
        sign=sign[0],
        sign_words=sign[1],
        left_out=graph.left_out,
    )


def _holds_up(graph: Graph, findings: Findings) -> dict[int, int]:
    """Return how many ranks are in operations that lack a rank, or in the one it is blamed for."""
    found: dict[int, int] = {}
    blamed = [(rank, op) for rank, (_, op, _) in findings.culprits.items()]
    blamed += [(rank, op) for rank, (_, op) in findings.candidates.items()]
    for rank, op in blamed:
        waiting: set[int] = set(op.calls) if op is not None else set()
        waiting.update(*(lacking.calls for lacking in graph.lacked_in.get(rank, ())))
        found[rank] = len(waiting - {rank})
    return found
