"""Ranks that never came to what others wait in, and those that came late."""

from collections import Counter, defaultdict

from postmortem import thresholds
from postmortem.diagnose.jam.calls import Call
from postmortem.diagnose.jam.findings import Findings, Op
from postmortem.diagnose.jam.graph import Graph
from postmortem.diagnose.jam.jam import CameLate, NeverCame, OutOfOrder
from postmortem.diagnose.jam.job import Job
from postmortem.facts.flight_recorder import Collective

_MOST_MATES = 8
_MOST_OPERATIONS = 64
"""That one rank is missing in: it has fewer groups."""


def never_came(graph: Graph, findings: Findings) -> None:
    """Blame who is missing and waits for nothing, or in nothing that would hold it."""
    proofs: dict[int, list[tuple[int, int, Call | None]]] = defaultdict(list)
    ops: dict[int, Op] = {}
    for rank in sorted(graph.lacked_in):
        missed = [op for op in graph.lacked_in[rank] if rank in op.never]
        if not missed or rank in findings.culprits:
            continue
        if not graph.blocking.get(rank):
            findings.blame(rank, NeverCame(_last(graph.job, rank)), first_op(missed))
            continue
        for op in missed[:_MOST_OPERATIONS]:
            proof = _passed_by_mates(graph, op, rank, findings)
            if proof is not None:
                ops[id(op)] = op
                proofs[id(op)].append((rank, *proof))
    for place, rows in proofs.items():
        op = ops[place]
        if not _fewer_than_mates(graph.job, op, [rank for rank, *_ in rows]):
            continue  # it may as well be the others who are early
        for rank, mate, early in rows:
            if early is None:
                findings.blame(rank, NeverCame(_last(graph.job, rank), mate), op)
            else:
                findings.blame(rank, OutOfOrder(early.number, early.kind.shape, mate), op)


def came_late(graph: Graph, findings: Findings, odd: set[int]) -> None:
    """Blame who came late to an operation that somebody else holds up too."""
    for op in graph.ops:
        if op.never or not odd.isdisjoint(op.calls):
            for rank, seconds in late_in(op, graph).items():
                findings.blame(rank, CameLate(seconds), op)


def late_in(op: Op, graph: Graph | None = None) -> dict[int, float]:
    """Return who came long after most, and by how many seconds; never more than half of all.

    With a graph, only those who had nothing else open before.
    """
    calls = {rank: call for rank, call in op.own_calls().items() if call.created}
    if len(calls) < 2:
        return {}
    times = sorted(call.created for call in calls.values())
    middle = times[(len(times) - 1) // 2]
    timeouts = [c.kind.shape.timeout_ms / 1e3 for c in calls.values() if c.kind.shape.timeout_ms]
    limit = min(thresholds.LATE_SECONDS, *timeouts) if timeouts else thresholds.LATE_SECONDS
    late = {
        rank: (call.created - middle) / 1e9
        for rank, call in calls.items()
        if call.created - middle > limit * 1e9
        and (graph is None or graph.frontier.get(rank) == call.at)
    }
    return late if 2 * len(late) <= len(calls) else {}


def first_op(ops: list[Op]) -> Op:
    """Return the operation of the smallest group, of those the one that was called first."""
    return min(
        ops,
        key=lambda op: (
            len(op.group.members),
            min((call.created for call in op.own_calls().values()), default=0),
            op.number,
        ),
    )


def _last(job: Job, rank: int) -> tuple[int, Collective] | None:
    call = job.last_call(rank)
    return None if call is None else (call.number, call.kind.shape)


def _passed_by_mates(
    graph: Graph, op: Op, rank: int, findings: Findings
) -> tuple[int, Call | None] | None:
    """Return a mate that called this operation with the same calls open as `rank` has now.

    They do not hold the rank then. With the mate comes a call of the rank, if one is open that the
    mate had not made by then. Most of the mates must agree, and culprits have no say.
    """
    job = graph.job
    mine: dict[tuple[object, ...], list[Call]] = defaultdict(list)
    for call in graph.blocking[rank]:
        mine[call.alike].append(call)
    last = job.last_call(rank)
    found: tuple[int, Call | None] | None = None
    against = asked = 0
    for mate, theirs in op.calls.items():
        if theirs is None or mate == rank or mate in findings.culprits:
            continue
        if not job.same_program(rank, mate):
            continue
        asked += 1
        if asked > _MOST_MATES:
            break
        before = Counter(c.alike for c in graph.blocking.get(mate, ()) if c.at < theirs.at)
        extra = [call for alike, calls in mine.items() for call in calls[before[alike] :]]
        early = [call for call in extra if not _had_called(job, mate, call, theirs)]
        waits = len(early) < len(extra)
        if waits or (not extra and (last is None or not _had_called(job, mate, last, theirs))):
            against += 1  # it waits in what the mate has behind it
        elif found is None or (found[1] is not None and not early):
            found = mate, (early[0] if early else None)
    return found if 2 * against < min(asked, _MOST_MATES) else None


def _had_called(job: Job, mate: int, call: Call, before: Call) -> bool:
    """Return whether a mate made its double of a call before one of its own; True if not known."""
    twin = job.twin(mate, call.group, call.group.place[call.rank])
    if twin is None:
        return True
    later = min(
        (
            c.number
            for c in job.calls[mate]
            if c.group is twin and c.kind.p2p == call.kind.p2p and c.at >= before.at
        ),
        default=None,
    )
    if later is not None:
        return later - 1 >= call.number
    reached = (twin.pairs if call.kind.p2p else twin.enqueued).get(mate)
    return reached is None or reached >= call.number


def _fewer_than_mates(job: Job, op: Op, flagged: list[int]) -> bool:
    """Return whether more of their mates called the operation than are flagged."""
    peers, those = 0, set(flagged)
    for rank, call in op.calls.items():
        if call is not None and rank not in those and job.same_program(flagged[0], rank):
            peers += 1
            if peers > len(flagged):
                return True
    return False
