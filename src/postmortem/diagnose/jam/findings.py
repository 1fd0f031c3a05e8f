"""What the steps find, gathered; a rank is blamed once, by the first step that does."""

from collections import Counter
from collections.abc import Iterable, Mapping

from postmortem.diagnose.jam.calls import Call, Group
from postmortem.diagnose.jam.jam import Cause, Culprit, Operation
from postmortem.facts.confidence import Confidence


class Op:
    """An operation that somebody has called and that has not ended there."""

    __slots__ = ("behind", "calls", "ended", "group", "never", "number", "pair", "unseen")

    def __init__(self, group: Group, number: int, pair: tuple[int, int] | None = None) -> None:
        self.group, self.number = group, number
        self.pair = pair
        """Who receives, and from whom; None for a collective."""
        self.calls: dict[int, Call | None] = {}
        """Ranks that are in it, with their calls where the dump still has them."""
        self.ended: set[int] = set()
        self.never: set[int] = set()
        self.behind: set[int] = set()
        """They have called it, and wait in something that they called before."""
        self.unseen: set[int] = set()

    @property
    def lacks(self) -> set[int]:
        """Return the ranks that it waits for."""
        return self.never | self.behind | self.unseen

    @property
    def alike(self) -> tuple[object, ...]:
        """Return what it has in common with its doubles in groups of the same kind."""
        place = self.group.place
        pair = None if self.pair is None else tuple(place.get(rank) for rank in self.pair)
        return (*self.group.kind, self.number if pair is None else None, pair)

    def own_calls(self) -> dict[int, Call]:
        """Return the calls that are known."""
        return {rank: call for rank, call in self.calls.items() if call is not None}

    def told(self) -> Operation:
        """Return it as a conclusion names it."""
        calls = self.own_calls().values()
        votes = Counter(id(call.kind) for call in calls)
        most = max(votes.values(), default=0)
        shape = next((c.kind.shape for c in calls if votes[id(c.kind)] == most), None)
        since = min((call.created for call in calls if call.created), default=None)
        return Operation(
            self.group.name,
            self.group.words,
            self.number,
            2 if self.pair else len(self.group.members),
            shape,
            None if since is None else since / 1e9,
        )


class Findings:
    """Culprits, candidates, and operations that do not end."""

    def __init__(self) -> None:
        self.culprits: dict[int, tuple[Cause, Op | None, Confidence]] = {}
        self.candidates: dict[int, tuple[Cause, Op | None]] = {}
        self.unended: list[Op] = []
        self.left_out = 0

    def blame(
        self, rank: int, cause: Cause, op: Op | None, sure: Confidence = Confidence.LIKELY
    ) -> None:
        """Name a culprit, unless it is one already."""
        self.culprits.setdefault(rank, (cause, op, sure))

    def suspect(self, ranks: Iterable[int], cause: Cause, op: Op | None) -> None:
        """Name ranks that may hold up others."""
        for rank in ranks:
            self.candidates.setdefault(rank, (cause, op))

    def told(self, holds_up: Mapping[int, int]) -> tuple[tuple[Culprit, ...], tuple[Culprit, ...]]:
        """Return culprits and candidates, in the order of their ranks."""
        names: dict[int, Operation] = {}

        def operation(op: Op | None) -> Operation | None:
            if op is None:
                return None
            if id(op) not in names:
                names[id(op)] = op.told()
            return names[id(op)]

        return (
            tuple(
                Culprit(rank, cause, operation(op), sure, holds_up.get(rank, 0))
                for rank, (cause, op, sure) in sorted(self.culprits.items())
            ),
            tuple(
                Culprit(rank, cause, operation(op), Confidence.POSSIBLE, holds_up.get(rank, 0))
                for rank, (cause, op) in sorted(self.candidates.items())
                if rank not in self.culprits
            ),
        )
