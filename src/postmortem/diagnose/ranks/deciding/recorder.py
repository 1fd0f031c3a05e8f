"""What the flight recorders of all ranks say together: who called something else, who is behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

from postmortem.facts.flight_recorder import Collective, Recorder
from postmortem.records import record

# Sizes that may differ between ranks: each sends as much as it has.
_OWN_SIZES = (
    "all_to_all",
    "alltoall",
    "gather",
    "scatter",
    "allgatherv",
    "coalesced",
    "send",
    "recv",
)


_MOST_CALLS = 10_000


class Differs(StrEnum):
    """How a rank differs from the others."""

    OPERATION = "operation"
    SIZES = "sizes"
    DTYPE = "dtype"
    BEHIND = "behind"
    """It never called what the others wait in."""
    AHEAD = "ahead"
    """It called what the others never did."""


@record
class Difference:
    """Where the ranks of a group part."""

    how: Differs
    group: str
    sequence: int
    odd: tuple[int, ...]
    """The ranks that differ from most; all, if no side is the larger one."""
    most: tuple[int, ...]
    """The others; empty if no side is the larger one."""
    calls: tuple[tuple[int, Collective], ...]
    """What ranks called with that number; of those behind, their last call."""

    def call(self, rank: int) -> Collective | None:
        """Return what a rank called there."""
        return next((call for number, call in self.calls if number == rank), None)


def compare(recorders: Sequence[Recorder]) -> Difference | None:
    """Return where the ranks part first, in the group where the fewest calls had finished.

    Sizes of calls that every rank has finished are not compared: what differs there did no harm.
    """
    found = [
        difference
        for group in _groups(recorders)
        if (difference := _compare_group(group, recorders)) is not None
    ]
    # A group whose ranks disagree explains groups in which they only wait.
    found.sort(key=lambda d: (d.how in (Differs.BEHIND, Differs.AHEAD), not d.most, len(d.odd)))
    return found[0] if found else None


def _groups(recorders: Iterable[Recorder]) -> list[str]:
    names = {call.group: None for one in recorders for call in one.calls if not call.is_p2p}
    return list(names)


def _compare_group(group: str, recorders: Sequence[Recorder]) -> Difference | None:
    members = next(
        (dict(one.members)[group] for one in recorders if group in dict(one.members)), None
    )
    there = [one for one in recorders if members is None or one.rank in members]
    there = [one for one in there if members is not None or one.last(group) is not None]
    if len(there) < 2:
        return None
    lasts = {one.rank: one.last(group) for one in there}
    done = min((_finished(one, group) for one in there), default=0)
    reached = max((last for last in lasts.values() if last is not None), default=0)
    first = min((c.sequence for one in there for c in one.calls if c.group == group), default=1)
    by_number = {one.rank: one.numbered(group) for one in there}
    ends = {last for last in lasts.values() if last is not None}
    for sequence in range(max(first, reached - _MOST_CALLS), reached + 1):
        calls = {rank: own[sequence] for rank, own in by_number.items() if sequence in own}
        # A call that failed is retired like one that worked: the last one may be no success.
        sizes = (Differs.SIZES,) if sequence > done or sequence in ends else ()
        kinds = {(c.operation, c.dtypes, c.input_sizes, c.output_sizes) for c in calls.values()}
        for how in (Differs.OPERATION, Differs.DTYPE, *sizes) if len(kinds) > 1 else ():
            difference = _disagreement(how, group, sequence, calls)
            if difference is not None:
                return difference
        missing = [rank for rank, last in lasts.items() if last is None or last < sequence]
        if missing and calls:
            return _apart(group, sequence, calls, missing, by_number)
    return None


def _finished(one: Recorder, group: str) -> int:
    """Return the last call up to which all were finished; 0 if none was."""
    numbers = [c for c in one.calls if c.group == group and not c.is_p2p]
    open_ones = [c.sequence for c in numbers if not c.finished]
    return min(open_ones) - 1 if open_ones else max((c.sequence for c in numbers), default=0)


def _disagreement(
    how: Differs, group: str, sequence: int, calls: dict[int, Collective]
) -> Difference | None:
    seen = {rank: _feature(how, call) for rank, call in calls.items()}
    votes = Counter(value for value in seen.values() if value is not None)
    if len(votes) < 2:
        return None
    (most, count), *_ = votes.most_common()
    majority = 2 * count > len(calls)
    return Difference(
        how,
        group,
        sequence,
        odd=tuple(sorted(r for r, v in seen.items() if not majority or v != most)),
        most=tuple(sorted(r for r, v in seen.items() if majority and v == most)),
        calls=tuple(sorted(calls.items())),
    )


def _feature(how: Differs, call: Collective) -> object:
    if how is Differs.OPERATION:
        return call.operation
    if how is Differs.DTYPE:
        return call.dtypes
    own = any(word in call.operation.lower() for word in _OWN_SIZES)
    return None if own else (call.input_sizes, call.output_sizes)


def _apart(
    group: str,
    sequence: int,
    calls: dict[int, Collective],
    missing: Sequence[int],
    by_number: dict[int, dict[int, Collective]],
) -> Difference:
    """Return who is behind; if most are, who is ahead of them."""
    last = {rank: own[max(own)] for rank, own in by_number.items() if rank in missing and own}
    both = tuple(sorted({**last, **calls}.items()))
    behind, ahead = tuple(sorted(missing)), tuple(sorted(calls))
    if len(behind) == len(ahead):
        return Difference(
            Differs.BEHIND, group, sequence, tuple(sorted((*behind, *ahead))), (), both
        )
    if len(behind) < len(ahead):
        return Difference(Differs.BEHIND, group, sequence, behind, ahead, both)
    return Difference(Differs.AHEAD, group, sequence, ahead, behind, both)
