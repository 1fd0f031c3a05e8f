"""Operations that all have called and that do not end, and ranks that wait for each other only."""

from collections import Counter

from postmortem.diagnose.jam.findings import Findings, Op
from postmortem.diagnose.jam.graph import Graph
from postmortem.diagnose.jam.jam import CameLate, InRing, Inside, NotBegun, NotFinished
from postmortem.diagnose.jam.stuck import late_in
from postmortem.facts.confidence import Confidence


def operations_that_do_not_end(graph: Graph, findings: Findings, odd: set[int]) -> None:
    """Look for who is at fault in operations that nobody is missing in."""
    for op in graph.ops:
        if not op.never and not op.behind and odd.isdisjoint(op.calls):
            _inside(op, findings)


def _inside(op: Op, findings: Findings) -> None:
    calls = op.own_calls()
    if len(op.calls) + len(op.ended) < 2:
        return
    states = Counter(call.kind.shape.state for call in calls.values())
    begun, waits = states["started"], states["scheduled"]
    if begun and waits and (waits < begun or len(calls) == 2):
        for rank, call in calls.items():
            if call.kind.shape.state == "scheduled":
                findings.blame(rank, NotBegun(), op)
        return
    symmetric = all(call.kind.symmetric for call in calls.values())
    if op.ended and symmetric and len(calls) < len(op.ended):
        for rank in calls:
            findings.blame(rank, NotFinished(len(op.ended)), op, Confidence.POSSIBLE)
        return
    late = late_in(op)
    if late:
        for rank, seconds in late.items():
            findings.blame(rank, CameLate(seconds), op)
    elif not op.unseen:  # one of those may be missing
        findings.unended.append(op)
        findings.suspect(calls, Inside(), op)


def rings(graph: Graph, findings: Findings) -> None:
    """Suspect ranks that are missing, and wait for those who wait for them."""
    reached = graph.reach(ends(graph, findings), ending_ops(graph, findings))
    left = graph.waiting - reached
    if left:
        missed = {r for op in graph.ops if not left.isdisjoint(op.calls) for r in op.never & left}
        findings.suspect(sorted(missed or left), InRing(), None)


def ends(graph: Graph, findings: Findings) -> set[int]:
    """Return the ranks that a path may end in."""
    found = set(findings.culprits) | set(findings.candidates)
    return found.union(*(op.unseen for op in graph.ops))


def ending_ops(graph: Graph, findings: Findings) -> list[Op]:
    """Return the operations that a path may end in: they do not end, or a culprit is in them."""
    unended = {id(op) for op in findings.unended}
    return [
        op
        for op in graph.ops
        if id(op) in unended or not findings.culprits.keys().isdisjoint(op.calls)
    ]
