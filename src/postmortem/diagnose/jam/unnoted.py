"""Calls of backends that note no end (gloo): which of those that are retired have failed.

A call that ran into its time-out is retired like one that worked. It cannot have worked where a
rank of its group, by a dump that was written later, never called it, where the last call of all
differs in what must be equal, or where its last caller came later than the time-out of the first.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postmortem.diagnose.jam.job import Job


def failed_calls(job: Job) -> dict[int, list[int]]:
    """Return of each rank the positions of its retired calls that cannot have worked."""
    found: dict[int, list[int]] = defaultdict(list)
    for group in (g for g in job.groups if g in job.without_ends):
        ranks = [rank for rank in group.members if rank in job.recorders]
        if len(ranks) < 2:
            continue
        reached = min(group.enqueued.get(rank, 0) for rank in ranks)
        behind = [job.recorders[rank] for rank in ranks if group.enqueued.get(rank, 0) == reached]
        until = min((one.written for one in behind if one.written is not None), default=math.inf)
        last: dict[int, int] = {}
        for rank in ranks:
            one = job.recorders[rank]
            for at in range(one.calls - 1, -1, -1):
                shape = one.shape_of[at]
                kind = job.kind(one, shape)
                if job.group_of(one, shape) is not group or kind.p2p:
                    continue
                if one.numbers[at] == reached:
                    last[rank] = at
                if one.numbers[at] <= reached:
                    break
                if kind.symmetric and one.created[at] <= until * 1e9:
                    found[rank].append(at)
        if _cannot_have_worked(job, last):
            for rank, at in last.items():
                found[rank].append(at)
    return dict(found)


def _cannot_have_worked(job: Job, last: dict[int, int]) -> bool:
    """Return whether the last call that all ranks of a group made differs, or came too late."""
    features, times, timeouts = set(), [], []
    for rank, at in last.items():
        one = job.recorders[rank]
        kind = job.kind(one, one.shape_of[at])
        features.add(kind.feature)
        if one.created[at] and kind.symmetric and kind.shape.timeout_ms > 0:
            times.append(one.created[at])
            timeouts.append(kind.shape.timeout_ms)
    if len(features) > 1:
        return True
    return len(times) > 1 and max(times) - min(times) > min(timeouts) * 1_000_000
