"""How ranks keep up with one another, over many samples of their stacks."""

from collections import Counter
from collections.abc import Mapping, Sequence

from postmortem import thresholds
from postmortem.diagnose.stacks.classes import doing
from postmortem.facts.live import Gap, Motion, Pace
from postmortem.facts.stackdumps import Doing, RankStack
from postmortem.facts.threads import own_frames

_WAITS = (Doing.COLLECTIVE, Doing.DEVICE)
_SPINS = 0.5
"""Of a processor: whoever uses more may wait in a loop, and be taken off it again and again."""


def paces(stacks: Sequence[RankStack], motions: Sequence[Motion]) -> tuple[Pace, ...]:
    """Return how each rank kept up; nothing where one was not read in every sample."""
    by_rank: dict[str, list[RankStack]] = {}
    for stack in stacks:
        by_rank.setdefault(stack.label, []).append(stack)
    gaps = {one.label: one.gaps for one in motions}
    counts = {len(rows) for rows in by_rank.values()}
    if len(by_rank) < 2 or len(counts) != 1:
        return ()
    samples = counts.pop()
    if samples < 2 or any(len(gaps.get(label, ())) != samples - 1 for label in by_rank):
        return ()
    waits = {label: [_waits(one) for one in rows] for label, rows in by_rank.items()}
    went_on = {label: _went_on(rows, gaps[label]) for label, rows in by_rank.items()}
    crowded = [
        2 * sum(row[number] for row in waits.values()) >= len(by_rank) for number in range(samples)
    ]
    steps = [_is_step(number, waits, went_on) for number in range(samples - 1)]
    return tuple(
        _pace(
            label,
            rows,
            went_on[label],
            [many and not wait for many, wait in zip(crowded, waits[label], strict=True)],
            steps,
        )
        for label, rows in by_rank.items()
    )


def _is_step(
    number: int, waits: Mapping[str, Sequence[bool]], went_on: Mapping[str, Sequence[bool]]
) -> bool:
    """Return whether all that waited before and after a gap did not wait for the same thing."""
    both = [label for label, row in waits.items() if row[number] and row[number + 1]]
    return bool(both) and all(went_on[label][number] for label in both)


def _waits(one: RankStack) -> bool:
    """Return whether it waits for others; one that ran as it was stopped only came there now.

    For a device threads may wait in a loop.
    """
    what = doing(one.thread.frames, is_running=one.is_running is True)
    arrives = what is Doing.COLLECTIVE and one.is_running is True
    return what in _WAITS and not one.is_stopped and not arrives


def _pace(
    label: str,
    rows: Sequence[RankStack],
    went_on: Sequence[bool],
    awaited: Sequence[bool],
    steps: Sequence[bool],
) -> Pace:
    apart = [one for one, alone in zip(rows, awaited, strict=True) if alone]
    inner = [frame for one in apart for frame in own_frames(one.thread)[:1]]
    often = Counter((frame.function, frame.file) for frame in inner).most_common(1)
    frame = next((one for one in inner if (one.function, one.file) == often[0][0]), None)
    return Pace(
        label,
        samples=len(rows),
        stopped=sum(one.is_stopped for one in rows),
        awaited=len(apart),
        steps=sum(map(all, zip(steps, awaited, awaited[1:], strict=False))),
        went_on=sum(went_on),
        frame=frame,
        ran=sum(one.is_running is True for one in apart),
    )


def _went_on(rows: Sequence[RankStack], gaps: Sequence[Gap]) -> list[bool]:
    """Return for each gap whether a rank did one thing after the other in it."""
    places = [_place(one) for one in rows]
    return [
        before != after or (gap.switches > 1 and gap.cpu_seconds < _SPINS * gap.seconds)
        for gap, before, after in zip(gaps, places, places[1:], strict=False)
    ]


def _place(one: RankStack) -> tuple[tuple[str, str | None, int | None], ...]:
    return tuple((frame.function, frame.file, frame.line) for frame in own_frames(one.thread))


def slow_ranks(found: Sequence[Pace]) -> list[Pace]:
    """Return the ranks that the others wait for in most samples; where it is not sure, none."""
    if not found:
        return []
    enough = found[0].samples >= thresholds.SLOW_SAMPLES
    return _stopped_in_turns(found) or (_awaited(found) if enough else [])


def _stopped_in_turns(found: Sequence[Pace]) -> list[Pace]:
    """Return who is stopped and goes on in turns, if nobody else is ever stopped."""
    slow = [one for one in found if one.stopped >= thresholds.SLOW_SHARE * one.samples]
    rest = [one for one in found if one not in slow]
    alone = len(slow) <= len(rest) and not any(one.stopped for one in rest)
    return slow if alone and all(one.went_on >= thresholds.SLOW_STEPS for one in slow) else []


def _awaited(found: Sequence[Pace]) -> list[Pace]:
    """Return who is awaited mostly, if the others hardly ever are, and go on."""
    slow = [one for one in found if one.awaited >= thresholds.SLOW_SHARE * one.samples]
    rest = [one for one in found if one not in slow]
    fast = all(one.awaited <= thresholds.FAST_SHARE * one.samples for one in rest)
    again = all(one.steps >= thresholds.SLOW_STEPS for one in slow)
    return slow if len(slow) <= len(rest) and fast and again else []
