"""Ranks that called another operation, type or size under the number that others wait in."""

from __future__ import annotations

from collections import Counter, defaultdict

from postmortem.diagnose.jam.calls import Call, Group, Kind
from postmortem.diagnose.jam.findings import Findings, Op
from postmortem.diagnose.jam.jam import CalledOther, Differs, Disagrees
from postmortem.diagnose.jam.job import Job
from postmortem.facts.confidence import Confidence

Table = dict[Group, dict[int, dict[int, Call]]]


def mismatches(job: Job, findings: Findings) -> None:
    """Blame the minority at each number."""
    table: Table = defaultdict(lambda: defaultdict(dict))
    for rank, calls in job.calls.items():
        for call in calls:
            if call.open and not call.kind.p2p:
                table[call.group][call.number][rank] = call
    usual = _Usual(job, table)
    for group, numbers in table.items():
        _in_group(group, numbers, usual, findings)


def _in_group(
    group: Group, numbers: dict[int, dict[int, Call]], usual: _Usual, findings: Findings
) -> None:
    out: set[int] = set()
    for number in sorted(numbers):
        calls = {rank: call for rank, call in numbers[number].items() if rank not in out}
        kinds = {id(call.kind): call.kind for call in calls.values()}
        if len(calls) < 2 or len({kind.feature for kind in kinds.values()}) < 2:
            continue
        votes = Counter(call.kind.feature for call in calls.values())
        op = Op(group, number)
        op.calls.update(calls)
        most: object
        (most, count), *_ = votes.most_common(1)
        sure = Confidence.CERTAIN if 2 * count > len(calls) else Confidence.LIKELY
        if sure is not Confidence.CERTAIN:
            known = usual.feature(group, number, calls)
            if known is None:
                findings.unended.append(op)
                for rank, call in calls.items():
                    findings.suspect([rank], Disagrees(call.kind.shape), op)
                break
            most = known
        others = next(call.kind for call in calls.values() if call.kind.feature == most)
        for rank, call in sorted(calls.items()):
            if call.kind.feature != most:
                out.add(rank)
                cause = CalledOther(_differs(call.kind, others), call.kind.shape, others.shape)
                findings.blame(rank, cause, op, sure)


def _differs(one: Kind, other: Kind) -> Differs:
    if one.feature[0] != other.feature[0]:
        return Differs.OPERATION
    return Differs.DTYPE if one.feature[1] != other.feature[1] else Differs.SIZES


class _Usual:
    """What groups of a kind call, for groups in which no side is the larger one."""

    def __init__(self, job: Job, table: Table) -> None:
        self._job = job
        self._table = table
        self._callers: dict[str, dict[object, set[int]]] | None = None
        self._sisters: dict[tuple[str, int], list[Group]] | None = None
        self._with_ends: set[str] = set()

    def feature(self, group: Group, number: int, calls: dict[int, Call]) -> object | None:
        """Return the one of the ranks' calls that is usual; None where that is not known."""
        votes = {call.kind.feature for call in calls.values()}
        there = self._in_sisters(group, number)
        known = [one for one in votes if one in there]
        if len(known) != 1:
            # A size or type that nobody else has at all, not even the other side elsewhere. Of
            # operations only what ranks outside of the group call tells what is usual, and only
            # where what has ended is recorded too.
            same = len({one[0] for one in votes}) == 1
            callers = self._all_callers()[group.words]
            if not same and group.words not in self._with_ends:
                return None
            known = [
                one
                for one in votes
                if callers[one if same else one[0]]
                - {r for r, call in calls.items() if not same or call.kind.feature == one}
            ]
        return known[0] if len(known) == 1 else None

    def _in_sisters(self, group: Group, number: int) -> set[object]:
        if self._sisters is None:
            self._sisters = defaultdict(list)
            for one in self._table:
                self._sisters[one.kind].append(one)
        first = group.members[0]
        return {
            call.kind.feature
            for other in self._sisters[group.kind]
            if other is not group and number in self._table[other]
            if self._job.same_program(first, other.members[0])
            for call in self._table[other][number].values()
        }

    def _all_callers(self) -> dict[str, dict[object, set[int]]]:
        """By the words of a group and a feature or operation, who calls such at any time."""
        if self._callers is None:
            self._callers = defaultdict(lambda: defaultdict(set))
            for rank, one in self._job.recorders.items():
                for place in set(one.shape_of):
                    kind, group = self._job.kind(one, place), self._job.group_of(one, place)
                    if kind.p2p or group is None:
                        continue
                    callers = self._callers[group.words]
                    callers[kind.feature].add(rank)
                    callers[kind.feature[0]].add(rank)
                    if kind.done:
                        self._with_ends.add(group.words)
        return self._callers
