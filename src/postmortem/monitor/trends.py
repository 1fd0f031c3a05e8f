"""Outputs that grow from batch to batch towards the largest value of their type.

What a module gives in one batch may be near the edge by chance; what gives more in nearly every
batch overflows sooner or later, and can be said before it does.
"""

import logging
import math
from collections import deque
from itertools import pairwise

from postmortem.facts.dtypes import RANGES
from postmortem.facts.frames import Numbers

log = logging.getLogger("postmortem.monitor")
_POINTS = 8
_FEWEST = 5
_UPWARDS = 0.75
"""This share of the steps from batch to batch has to lead upwards."""
_AHEAD = 50
"""So many batches ahead an overflow is told."""
_FLOORS = {
    name: limits.largest * 2.0**-7 if limits.largest < 1e6 else limits.largest * 2.0**-24
    for name, limits in RANGES.items()
    if not limits.saturates
}
"""Smaller values are not followed: the cost is one comparison then. 512 for float16."""


class Trends:
    """Follows the largest value of each output over the batches that are looked at."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, str], deque[tuple[int, float]]] = {}
        self._said: dict[tuple[str, str], float] = {}
        self._last: Numbers | None = None

    def see(self, module: str, class_name: str, batch: int, name: str, numbers: Numbers) -> None:
        """Take an output; warns once it leads to an overflow, and again when that is near."""
        largest = numbers.abs_max_finite
        floor = _FLOORS.get(numbers.dtype)
        if floor is None or not largest >= floor:
            if self._points:
                self._points.pop((module, name), None)
            return
        if numbers is self._last:  # a module that passes on what a part of it gave
            return
        self._last = numbers
        key = (module, name)
        points = self._points.get(key)
        if points is None:
            points = self._points[key] = deque(maxlen=_POINTS)
        if points and points[-1][0] == batch:  # called several times in a batch
            points[-1] = (batch, max(points[-1][1], largest))
            return
        points.append((batch, largest))
        left = _batches_left(points, RANGES[numbers.dtype].largest)
        if left is None or left > self._said.get(key, _AHEAD):
            return
        self._said[key] = left / 4
        log.warning("batch %d: %s", batch, self._sentence(key, class_name, numbers.dtype, left))

    def _sentence(self, key: tuple[str, str], class_name: str, dtype: str, left: float) -> str:
        points = self._points[key]
        first, last = points[0], points[-1]
        module, name = key
        return (
            f"{name} of {module or 'the model'} ({class_name}) grew from {first[1]:.3g} to "
            f"{last[1]:.3g} in {last[0] - first[0]} batches; {dtype} holds "
            f"{RANGES[dtype].largest:.3g} at most: at this pace it overflows in about "
            f"{max(1, math.ceil(left))} batches"
        )


def _batches_left(points: deque[tuple[int, float]], largest: float) -> float | None:
    """Return after how many batches the limit is reached; None where nothing grows steadily."""
    if len(points) < _FEWEST:
        return None
    values = [value for _, value in points]
    up = sum(later > earlier for earlier, later in pairwise(values))
    doublings = math.log2(values[-1] / values[0])
    if up < _UPWARDS * (len(points) - 1) or doublings <= 0:
        return None
    return math.log2(largest / values[-1]) * (points[-1][0] - points[0][0]) / doublings
