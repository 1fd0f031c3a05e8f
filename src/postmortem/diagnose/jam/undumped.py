"""Ranks without a dump: whether one of them alone explains why an operation does not end.

Nothing is seen of such a rank, so it may be a victim like those that wait. It is blamed where its
mates are there, and where nothing that it could wait in leads to another culprit: what its mates
had called before they called what it is missing in.
"""

from collections import defaultdict
from collections.abc import Iterable

from postmortem.diagnose.jam.calls import Call, Group
from postmortem.diagnose.jam.findings import Findings, Op
from postmortem.diagnose.jam.graph import Graph
from postmortem.diagnose.jam.jam import CameLate, NoDump
from postmortem.diagnose.jam.job import Job
from postmortem.diagnose.jam.stuck import first_op

_MATES_OF_A_GROUP = 6
_MOST_MATES = 24
_MOST_LOOKS = 1_000_000
"""At pairs of ranks; beyond that nobody is blamed for want of a dump."""


class Undumped:
    """The ranks without dumps that operations lack, and what they could be waiting for."""

    def __init__(self, graph: Graph, findings: Findings) -> None:
        self.graph, self.findings = graph, findings
        self.job: Job = graph.job
        self._looks = 0
        self._reached: dict[tuple[int, Group], int | None] = {}
        self._begun: dict[tuple[Group, int], int] = {}
        self.lacked: dict[int, list[Op]] = defaultdict(list)
        """Of each suspect the operations that only those without dumps are missing in."""
        alike: dict[tuple[object, ...], list[Op]] = defaultdict(list)
        for op in graph.ops:
            if op.unseen or op.never or op.behind:
                alike[op.alike].append(op)
        for op in graph.ops:
            explained = op.never or op.behind or not findings.culprits.keys().isdisjoint(op.calls)
            if not op.unseen or explained:
                continue
            if not any(
                self._misses_like_its_mates(op, rank, alike[op.alike]) for rank in op.unseen
            ):
                for rank in op.unseen:
                    self.lacked[rank].append(op)

    def blame(self) -> None:
        """Blame, or suspect, the fewest of them that explain most."""
        places = self._fewest()
        leads = {rank: self._leads_to(rank, places) for rank in places}
        together: set[int] = set()
        for rank, (op, alone) in places.items():
            if rank in together:
                continue
            known, others = leads[rank]
            back = {other for other in others if rank in leads[other][1]}
            if self._looks > _MOST_LOOKS:
                self.findings.suspect([rank], NoDump(), op)
                continue
            if alone and not known and not others:
                self.findings.blame(rank, NoDump(), op)
                continue
            group = None if known or others - back else self._unseen_group(back | {rank})
            if group is not None and all(
                not leads[other][0] and leads[other][1] <= back | {rank} for other in back
            ):
                ranks = tuple(sorted(back | {rank}))
                for other in ranks:
                    self.findings.blame(other, NoDump(together=ranks), places[other][0])
                together.update(ranks)
                continue
            leading = known or others
            may = min(leading) if leading else None
            self.findings.suspect([rank], NoDump(may_wait_for=may), op)
            if not alone:
                self.findings.suspect(sorted(op.unseen), NoDump(), op)

    def _misses_like_its_mates(self, op: Op, rank: int, alike: Iterable[Op]) -> bool:
        """Return whether mates that are no culprits are missing in the doubles of an operation."""
        place = op.group.place[rank]
        for other in alike:
            if other.group is op.group:
                continue
            mate = other.group.members[place]
            missing = mate in other.never or mate in other.behind
            free = missing and mate not in self.findings.culprits
            if free and self.job.same_program(rank, mate):
                return True
        return False

    def _fewest(self) -> dict[int, tuple[Op, bool]]:
        """Return suspects with an operation each, and whether nobody else would do for it."""
        places: dict[int, tuple[Op, bool]] = {}
        left = {id(op) for ops in self.lacked.values() for op in ops}
        for rank in sorted(self.lacked, key=lambda r: (-len(self.lacked[r]), r)):
            mine = [op for op in self.lacked[rank] if id(op) in left]
            if not mine:
                continue
            count = len(self.lacked[rank])
            alone = [op for op in mine if len(op.unseen) == 1]
            rivals = any(
                other != rank and len(self.lacked[other]) >= count
                for op in mine
                for other in op.unseen
            )
            places[rank] = first_op(alone or mine), bool(alone) or not rivals
            left -= {id(op) for op in mine}
        return places

    def _unseen_group(self, ranks: set[int]) -> Group | None:
        """Return a group that all these ranks are in, and of which nothing is seen."""
        seen = self.job.recorders.keys()
        for group in self.job.all_groups_of(min(ranks)):
            whole = len(group.members) > 1 and ranks <= group.place.keys()
            if whole and seen.isdisjoint(group.place):
                return group
        return None

    def _leads_to(
        self, start: int, suspects: dict[int, tuple[Op, bool]]
    ) -> tuple[set[int], set[int]]:
        """Return the culprits, and the other suspects, that a rank could be waiting for."""
        culprits = self.findings.culprits.keys()
        ends = set(culprits).union(*(op.calls for op in self.findings.unended))
        known: set[int] = set()
        others: set[int] = set()
        visited, queue = {start}, [start]
        while queue and self._looks <= _MOST_LOOKS:
            rank = queue.pop()
            if rank in self.job.recorders:
                following: set[int] = set()
                for op in self.graph.waits_in.get(rank, ()):
                    following |= op.lacks | (op.calls.keys() & culprits)
            else:
                following = self._could_wait_for(rank)
            for other in following - visited:
                visited.add(other)
                if other in ends:
                    known.add(other)
                elif other in suspects:
                    others.add(other)
                else:
                    queue.append(other)
        return known, others

    def _could_wait_for(self, rank: int) -> set[int]:
        """Return members of its groups that a rank without a dump could be waiting for."""
        found: set[int] = set()
        mates = self._mates(rank)
        for group in self.job.all_groups_of(rank):
            self._looks += len(group.members)
            if self._looks > _MOST_LOOKS:
                break
            for other in group.members:
                if other == rank:
                    continue
                culprit = self.findings.culprits.get(other)
                seen = other in self.job.recorders
                if seen and culprit is None and not self.job.waits_or_owes(other):
                    continue
                # what somebody who came late has called, it called too late
                late = culprit is not None and isinstance(culprit[0], CameLate)
                whole = late and group not in self.job.with_pairs
                if whole or not self._refuted(group, other, rank, mates, late=late):
                    found.add(other)
        return found

    def _mates(self, rank: int) -> list[Call]:
        """Return calls of mates in what the rank alone is missing in: before them, they passed."""
        mates: list[Call] = []
        for op in sorted(self.lacked.get(rank, ()), key=lambda op: len(op.group.members)):
            if op.pair is None:
                calls = op.own_calls().items()
                found = (call for mate, call in calls if self.job.same_program(rank, mate))
                mates += [call for call, _ in zip(found, range(_MATES_OF_A_GROUP), strict=False)]
            if len(mates) > _MOST_MATES:
                break
        return mates

    def _refuted(
        self, group: Group, other: int, rank: int, mates: list[Call], *, late: bool
    ) -> bool:
        """Return whether a rank cannot be waiting for another one in a group."""
        place = (group.place[rank], group.place[other])
        pairs = self.job.exchanging.get(group.words)
        if pairs and not group.enqueued and place not in pairs:
            return True  # these two places exchange nothing
        return not late and any(self._passed(group, other, rank, call) for call in mates)

    def _passed(self, group: Group, other: int, rank: int, call: Call) -> bool:
        """Return whether another rank has done what a mate needed when it made a call."""
        self._looks += 1
        job, mate = self.job, call.rank
        twin = job.twin(mate, group, group.place[rank])
        if twin is None:
            return False
        reached = self._reached_before(call, twin)
        if reached is not None:
            # all have taken part in so many, or the other one's device has come as far
            return self._device_at(group, other) >= reached or job.ended.get(group, -1) >= reached
        if group is twin:
            return True
        return self._has_sent(other, rank, self._received(call, twin.members[group.place[other]]))

    def _reached_before(self, call: Call, group: Group) -> int | None:
        """Return the last collective of a group that a rank had called before a call."""
        key = (id(call), group)
        if key not in self._reached:
            later = min(
                (
                    c.number
                    for c in self.job.calls[call.rank]
                    if c.group is group and c.at > call.at and not c.kind.p2p
                ),
                default=None,
            )
            self._reached[key] = group.enqueued.get(call.rank) if later is None else later - 1
        return self._reached[key]

    def _device_at(self, group: Group, rank: int) -> int:
        """Return the last call of a group that the device of a rank has come to."""
        key = (group, rank)
        if key not in self._begun:
            self._begun[key] = self._last_begun(group, rank)
        return self._begun[key]

    def _last_begun(self, group: Group, rank: int) -> int:
        queued = [
            call.number
            for call in self.job.calls.get(rank, ())
            if call.group is group and call.open and not call.kind.p2p
            if self.graph.is_queued(call)
        ]
        return min(queued) - 1 if queued else group.enqueued.get(rank, -1)

    def _received(self, before: Call, peer: int) -> int:
        """Return how often a rank had called to receive from another one before a call."""
        calls = self._pairs_of(before.rank)
        return sum(c.kind.is_recv and c.peer == peer and c.at < before.at for c in calls)

    def _has_sent(self, rank: int, peer: int, count: int) -> bool:
        """Return whether a rank has sent to another one so often, or has sent in vain."""
        sent = [
            call
            for call in self._pairs_of(rank)
            if call.kind.is_send and call.peer == peer
            if not call.open or not self.graph.is_queued(call)
        ]
        return (bool(count) and len(sent) >= count) or any(call.open for call in sent)

    def _pairs_of(self, rank: int) -> list[Call]:
        """Return all sends and receives of a rank that its dump has."""
        one = self.job.recorders.get(rank)
        if one is None:
            return []
        p2p = [shape.is_p2p for shape in one.shapes]
        found = (self.job.call(one, at) for at, shape in enumerate(one.shape_of) if p2p[shape])
        return [call for call in found if call is not None]
