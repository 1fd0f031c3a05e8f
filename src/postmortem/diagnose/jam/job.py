"""Where each rank is in each of its groups, by its entries and by its counters."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from postmortem import thresholds
from postmortem.diagnose.jam.calls import Call, Group, Kind
from postmortem.diagnose.jam.jam import Sign
from postmortem.diagnose.jam.unnoted import failed_calls
from postmortem.facts.flight_recorder import Recorder

_MOST_CALLS = 4_000_000
"""Of all ranks together, behind the first that is open; half a KiB each."""
_LEAST_CALLS = 64
_MOST_RANKS = 1_000_000


class Job:
    """All dumps of a job together."""

    def __init__(self, recorders: Sequence[Recorder], world: int | None = None) -> None:
        self._world = world
        self.recorders = {one.rank: one for one in recorders}
        self.groups: list[Group] = []
        self.groups_of: dict[int, dict[str, Group]] = {}
        """Of each rank whose dump there is, its groups by name."""
        self._kinds: dict[int, Kind] = {}
        self._all_of: dict[int, list[Group]] = defaultdict(list)
        self._by_place: dict[int, dict[tuple[str, int, int], Group]] = {}
        """Of each rank, its first group of a kind in which it has a place."""
        self._resolve(recorders)
        self._last: dict[int, dict[int, int]] = {}
        """Of each rank the position of the last call of each shape."""
        self.without_ends: set[Group] = set()
        """Groups whose backend does not tell success from failure."""
        for one in recorders:
            self._last[one.rank] = dict(zip(one.shape_of, range(one.calls), strict=True))
            self._reach(one)
        self.with_pairs = self._with_pairs(recorders)
        """Groups in which ranks send to each other: their counters count that too."""
        numbers = {one.rank: self._group_numbers(one) for one in recorders}
        for one in recorders:
            self._count(one, numbers[one.rank])
        reopened = failed_calls(self)
        self.failed = sorted(reopened)
        """Ranks with a call that its backend gave up."""
        most = max(_LEAST_CALLS, _MOST_CALLS // max(1, len(recorders)))
        self.calls: dict[int, list[Call]] = {}
        """Of each rank its calls from the first open one on, in their order."""
        for one in recorders:
            self.calls[one.rank] = self._behind_first_open(one, reopened.get(one.rank, ()), most)
            self._complete(one, numbers[one.rank])
        self.exchanging = self._exchanging()
        """By the words of a group, places that send to each other."""
        self.ended = {g: max(g.completed.values()) for g in self.groups if g.completed}

    def kind(self, one: Recorder, shape: int) -> Kind:
        """Return what a shape of a rank means."""
        collective = one.shapes[shape]
        known = self._kinds.get(id(collective))
        if known is None:
            known = self._kinds[id(collective)] = Kind(collective)
        return known

    def group_of(self, one: Recorder, shape: int) -> Group | None:
        """Return the group that calls of a shape are in; None if its members do not hold."""
        return self.groups_of[one.rank].get(one.shapes[shape].group)

    def all_groups_of(self, rank: int) -> Sequence[Group]:
        """Return all groups with a rank, also of one without a dump."""
        return self._all_of.get(rank, ())

    def last_call(self, rank: int) -> Call | None:
        """Return the last call of a rank that is no send."""
        one = self.recorders[rank]
        at = max(
            (at for shape, at in self._last[rank].items() if not self.kind(one, shape).is_send),
            default=None,
        )
        return None if at is None else self.call(one, at)

    def call(self, one: Recorder, at: int) -> Call | None:
        """Return one call of a rank; None where its group is not known."""
        shape = one.shape_of[at]
        group = self.group_of(one, shape)
        if group is None:
            return None
        kind = self.kind(one, shape)
        number, created = one.numbers[at], one.created[at]
        return Call(one.rank, at, group, kind, number, created, open_=not kind.done)

    def waits_or_owes(self, rank: int) -> bool:
        """Return whether a rank has anything open at all."""
        return any(call.open for call in self.calls.get(rank, ()))

    def twin(self, mate: int, group: Group, place: int) -> Group | None:
        """Return the group that does for a mate what `group` does for the rank at `place`."""
        known = self._by_place.get(mate)
        if known is None:
            known = self._by_place[mate] = {}
            for other in self.all_groups_of(mate):
                known.setdefault((*other.kind, other.place[mate]), other)
        found = known.get((*group.kind, place))
        if found is not None:
            return found
        return group if mate in group.place and group.words not in self.exchanging else None

    def same_program(self, rank: int, mate: int) -> bool:
        """Return whether two ranks stand at the same place of the pipeline: they call alike."""
        for group in self.all_groups_of(rank):
            if group.words not in self.exchanging:
                continue
            if mate in group.place:
                if len(group.members) < len(self.recorders):
                    return False  # they send to each other
            elif self.twin(mate, group, group.place[rank]) is None:
                return False
        return True

    def _resolve(self, recorders: Sequence[Recorder]) -> None:
        """Give each rank its groups; those whose members no dump lists (gloo) have who called."""
        by_object: dict[int, Group] = {}
        by_value: dict[tuple[str, tuple[int, ...]], Group] = {}
        callers: dict[str, dict[int, str]] = defaultdict(dict)
        for one in recorders:
            mine = self.groups_of[one.rank] = {}
            for listed in one.groups:
                if not listed.members:
                    continue
                group = by_object.get(id(listed))
                if group is None:
                    key = (listed.name, listed.members)
                    group = by_value.get(key)
                    if group is None:
                        group = Group(listed.name, listed.words, listed.members, listed=True)
                        by_value[key] = group
                    by_object[id(listed)] = group
                if one.rank in group.place:
                    mine[listed.name] = group
            named = {group.name for group in one.groups if group.members}
            for shape in one.shapes:
                if shape.group not in named:
                    callers[shape.group][one.rank] = shape.group_words
        for name, ranks in callers.items():
            members = self._everybody() if name in ("0", "") else tuple(sorted(ranks))
            words = next(iter(ranks.values()))
            group = by_value[name, members] = Group(name, words, members, listed=False)
            for rank in members:
                if rank in self.groups_of:
                    self.groups_of[rank].setdefault(name, group)
        self.groups = list(by_value.values())
        for group in self.groups:
            for rank in group.members:
                self._all_of[rank].append(group)

    def _everybody(self) -> tuple[int, ...]:
        """Return the ranks of the default group: those with dumps, all if their number is known."""
        ranks = tuple(sorted(self.recorders))
        if self._world is None or self._world <= ranks[-1] or self._world > _MOST_RANKS:
            return ranks
        return tuple(range(self._world))

    def _reach(self, one: Recorder) -> None:
        for shape, at in self._last[one.rank].items():
            group = self.group_of(one, shape)
            if group is not None:
                kind = self.kind(one, shape)
                if not kind.shape.notes_ends:
                    self.without_ends.add(group)
                table = group.pairs if kind.p2p else group.enqueued
                table[one.rank] = max(one.numbers[at], table.get(one.rank, one.numbers[at]))

    def _with_pairs(self, recorders: Iterable[Recorder]) -> set[Group]:
        found = {
            group
            for one in recorders
            for shape in self._last[one.rank]
            if self.kind(one, shape).p2p and (group := self.group_of(one, shape)) is not None
        }
        words = {group.words for group in found}
        everybody = len(self.recorders)
        return found | {g for g in self.groups if g.words in words and len(g.members) < everybody}

    def _group_numbers(self, one: Recorder) -> dict[int, Group]:
        """Return the groups by their numbers in one process.

        Entries say it. The other groups follow from the order in which they were made, which
        numbers and names share, where it agrees with what the entries say.
        """
        mine = self.groups_of[one.rank]
        told = {
            shape.group_number: mine[shape.group]
            for shape in one.shapes
            if shape.group_number is not None and shape.group in mine
        }
        names = [g.name for g in one.groups if g.name in mine]
        numbers = [row.group_number for row in one.status]
        if len(names) != len(numbers) or not all(n.isdecimal() and len(n) < 10 for n in names):
            return told
        names.sort(key=int)
        ordered = {n: mine[name] for n, name in zip(sorted(numbers), names, strict=True)}
        agrees = all(ordered.get(number) is group for number, group in told.items())
        return ordered if agrees else told

    def _count(self, one: Recorder, numbers: dict[int, Group]) -> None:
        """Add what the counters say was called: they know of groups with no entry left."""
        told = {self.group_of(one, shape) for shape in self._last[one.rank]}
        for row in one.status:
            group = numbers.get(row.group_number)
            if group is None or row.enqueued < 0:
                continue
            if group not in self.with_pairs:
                group.enqueued[one.rank] = max(row.enqueued, group.enqueued.get(one.rank, 0))
            elif group not in told:
                group.pairs[one.rank] = max(row.enqueued, group.pairs.get(one.rank, 0))

    def _behind_first_open(self, one: Recorder, reopened: Iterable[int], most: int) -> list[Call]:
        is_open = [not self.kind(one, shape).done for shape in range(len(one.shapes))]
        first = next((at for at, shape in enumerate(one.shape_of) if is_open[shape]), one.calls)
        again = set(reopened)
        first = min(first, *again) if again else first
        calls = []
        for at in range(first, min(one.calls, first + most)):
            call = self.call(one, at)
            if call is not None:
                call.open = call.open or at in again
                calls.append(call)
        return calls

    def _complete(self, one: Recorder, numbers: dict[int, Group]) -> None:
        """Set up to which number everything has ended for a rank, in each of its groups."""
        opened: dict[Group, int] = {}
        for call in self.calls[one.rank]:
            if call.open and not call.kind.p2p:
                opened[call.group] = min(opened.get(call.group, call.number), call.number)
        finished: dict[Group, int] = {}
        for shape, at in self._last[one.rank].items():
            kind, group = self.kind(one, shape), self.group_of(one, shape)
            if kind.done and not kind.p2p and group is not None:
                finished[group] = max(finished.get(group, -1), one.numbers[at])
        for row in one.status:
            group = numbers.get(row.group_number)
            if group is not None and group not in self.with_pairs and row.completed >= 0:
                finished[group] = max(finished.get(group, -1), row.completed)
        for group in {**finished, **opened}:
            first = opened.get(group)
            done = finished.get(group, (first or 0) - 1)
            group.completed[one.rank] = done if first is None else min(done, first - 1)

    def _exchanging(self) -> dict[str, set[tuple[int, int]]]:
        pairs: dict[str, set[tuple[int, int]]] = defaultdict(set)
        for rank, one in self.recorders.items():
            for shape in self._last[rank]:
                kind, group = self.kind(one, shape), self.group_of(one, shape)
                if kind.peer is not None and group is not None:
                    mine = group.place[rank]
                    pairs[group.words] |= {(mine, kind.peer), (kind.peer, mine)}
        return dict(pairs)


def sign_of_hang(job: Job, timed_out: str | None, *, went_on: bool) -> tuple[Sign, str]:
    """Return whether anything shows that the job hung, and what, in words."""
    if went_on:
        return Sign.AGAINST, "the job was at work then or later, as its logs say"
    if timed_out is not None:
        return Sign.SEEN, timed_out
    if job.failed:
        return Sign.SEEN, f"a call of rank {job.failed[0]} was given up"
    ages: dict[int, float] = {}
    for rank, one in job.recorders.items():
        newest = max(one.created, default=0) / 1e9
        if newest and one.written is not None and one.written >= newest:
            ages[rank] = one.written - newest
    if not ages:
        return Sign.UNKNOWN, "the dumps do not tell when they were written"
    oldest = max(ages, key=lambda rank: (ages[rank], -rank))
    seconds = f"{ages[oldest]:,.0f} s"
    if ages[oldest] >= thresholds.STILL_SECONDS:
        return Sign.SEEN, f"the dump of rank {oldest} was written {seconds} after its newest call"
    return Sign.AGAINST, f"all dumps were written at most {seconds} after their newest call"
