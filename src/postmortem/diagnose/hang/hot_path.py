"""Where a busy thread spends its time: what most of many looks at its stack have in common."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from postmortem import thresholds
from postmortem.diagnose.stacks.activity import kind_of
from postmortem.diagnose.stacks.frame_identity import call_key
from postmortem.facts.live import HotCall, HotPath, LiveProcess, Motion
from postmortem.facts.threads import Frame

_BUSY_SHARE = 0.5
"""Of one processor: who computes for less of the time waits, above all."""
_MOST_BUSY = 4
_DOMINANT_SHARE = 0.5
"""A call that fewer looks have in common is one of several, and no hot path goes on there."""


def busy_ranks(
    ranks: Sequence[LiveProcess], alone: Sequence[int], motions: Sequence[Motion]
) -> tuple[int, ...]:
    """Return who computes while the others wait, or is the only one; a few at most.

    `alone` are the pids of those that wait for no other rank.
    """
    computes = {one.label for one in motions if one.cpu_share > _BUSY_SHARE or one.ran_always}
    busy = (one.pid for one in ranks if one.pid in alone and one.label in computes)
    return tuple(busy)[:_MOST_BUSY]


def hot_paths(stacks: Mapping[int, Sequence[Sequence[Frame]]]) -> tuple[HotPath, ...]:
    """Return the hot path of each process that has one, by many looks at its main thread."""
    found = (hot_path(pid, rows) for pid, rows in stacks.items())
    return tuple(one for one in found if one is not None)


def hot_path(pid: int, stacks: Sequence[Sequence[Frame]]) -> HotPath | None:
    """Return the calls, the outermost first, in which more than half of the looks found a thread.

    `stacks` have their innermost frame first, as `Thread.frames`. None where there are too few of
    them, or where they share nothing.
    """
    paths = [tuple(reversed(_telling(frames))) for frames in stacks if frames]
    if len(paths) < thresholds.HOT_PATH_LOOKS:
        return None
    calls: list[HotCall] = []
    together = paths
    while True:
        depth = len(calls)
        together = [path for path in together if len(path) > depth]
        groups: dict[Hashable, list[tuple[Frame, ...]]] = {}
        for path in together:
            groups.setdefault(call_key(path[depth]), []).append(path)
        together = max(groups.values(), key=len, default=[])
        if len(together) <= _DOMINANT_SHARE * len(paths):
            break
        (frame, _), *_ = Counter(path[depth] for path in together).most_common(1)
        calls.append(HotCall(frame, len(together)))
    return HotPath(pid, len(paths), tuple(calls)) if calls else None


def _telling(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the Python frames and what the innermost of them called, without the interpreter's."""
    first = next((i for i, frame in enumerate(frames) if frame.kind == "python"), None)
    if first is None:
        return frames
    own = [frame for frame in frames[first:] if frame.kind == "python"]
    return [frame for frame in frames[:first] if not kind_of(frame, None).noise] + own
