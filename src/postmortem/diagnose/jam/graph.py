"""Who waits in which operation, and whom each operation lacks."""

from collections import defaultdict
from collections.abc import Iterable

from postmortem.diagnose.jam.calls import Call, Group
from postmortem.diagnose.jam.findings import Op
from postmortem.diagnose.jam.job import Job

_MOST_LOOKS = 10_000_000
"""Members of operations that are looked at, all together."""


class Graph:
    """The ranks' open calls as operations; made once lagging ranks are left out."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.blocking: dict[int, list[Call]] = {}
        """Of each rank the open calls that it may wait in, in their order."""
        self.sends: dict[int, list[Call]] = {}
        self.frontier: dict[int, int] = {}
        """Where the device of a waiting rank stands: at its first open call that is no send. What
        comes behind that is queued, and not begun."""
        for rank, calls in job.calls.items():
            waits = [call for call in calls if call.open]
            self.blocking[rank] = mine = [call for call in waits if call.blocks]
            self.sends[rank] = [call for call in waits if not call.blocks]
            if mine:
                self.frontier[rank] = mine[0].at
        self.left_out = 0
        self.ops = self._operations()
        self.waits_in: dict[int, list[Op]] = defaultdict(list)
        self.lacked_in: dict[int, list[Op]] = defaultdict(list)
        for op in self.ops:
            for rank in op.calls:
                self.waits_in[rank].append(op)
            for rank in op.lacks:
                self.lacked_in[rank].append(op)

    @property
    def waiting(self) -> set[int]:
        """Return the ranks that wait."""
        return set(self.frontier)

    def is_queued(self, call: Call) -> bool:
        """Return whether a call is behind what its rank waits in."""
        return self.frontier.get(call.rank, call.at) < call.at

    def _operations(self) -> list[Op]:
        firsts: dict[Group, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        there: dict[tuple[Group, int], dict[int, Call]] = defaultdict(dict)
        found: list[Op] = []
        for rank, calls in self.blocking.items():
            seen: set[tuple[Group, int | None]] = set()
            for call in calls:
                if not call.kind.p2p:
                    there[call.group, call.number][rank] = call
                mark = (call.group, call.peer if call.kind.p2p else None)
                if mark in seen:
                    continue
                seen.add(mark)
                if not call.kind.p2p:
                    firsts[call.group][call.number].add(rank)
                elif call.peer is not None and call.peer != rank:
                    found.append(self._pair(call, call.peer))
        looks = 0
        for group, numbers in firsts.items():
            for number in sorted(numbers):
                looks += len(group.members)
                if looks > _MOST_LOOKS:
                    self.left_out += 1
                    continue
                made = self._collective(group, number, there[group, number], numbers[number])
                found.append(made)
        return found

    def _pair(self, call: Call, peer: int) -> Op:
        """Return a receive, joined with the first open send of the other side."""
        op = Op(call.group, call.number, (call.rank, peer))
        op.calls[call.rank] = call
        if peer not in self.job.recorders:
            op.unseen.add(peer)
            return op
        if self.is_queued(call):
            op.behind.add(call.rank)
        theirs = (c for c in self.sends[peer] if c.group is call.group and c.peer == call.rank)
        send = next(theirs, None)
        if send is None:
            op.never.add(peer)
        elif self.is_queued(send):
            op.behind.add(peer)
        else:
            op.calls[peer] = send
        return op

    def _collective(self, group: Group, number: int, there: dict[int, Call], first: set[int]) -> Op:
        """Return an operation that is the `first` open one of a group for some ranks."""
        op = Op(group, number)
        for rank in group.members:
            call = there.get(rank)
            if call is not None:
                if self.is_queued(call):
                    op.behind.add(rank)
                if rank in first or not self.is_queued(call):
                    op.calls[rank] = call
            elif rank not in self.job.recorders:
                op.unseen.add(rank)
            elif group.completed.get(rank, -1) >= number:
                op.ended.add(rank)
            elif group.enqueued.get(rank, -1) >= number:
                op.calls[rank] = None
            else:
                op.never.add(rank)
        return op

    def reach(self, ranks: Iterable[int], ends: Iterable[Op]) -> set[int]:
        """Return the ranks from which a path leads to one of these ranks or operations."""
        reached = set(ranks)
        queue = list(reached)
        done: set[int] = set()
        for op in ends:
            done.add(id(op))
            queue += op.calls.keys() - reached
            reached.update(op.calls)
        while queue:
            for op in self.lacked_in.get(queue.pop(), ()):
                if id(op) not in done:
                    done.add(id(op))
                    queue += op.calls.keys() - reached
                    reached.update(op.calls)
        return reached
