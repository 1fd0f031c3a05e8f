"""The lines that were kept of one label, found by number without a look at all of them.

A job that tries again prints thousands of tracebacks; each asks what stands around it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postmortem._native import RawRegion


class KeptRegion:
    """One region, with what is asked of it again and again."""

    def __init__(self, raw: RawRegion) -> None:
        self.raw = raw
        self.rows = raw[3]
        self._numbers = [row[0] for row in self.rows]

    def index(self, line: int) -> int:
        """Return the index of the first row with a line's number, or with a larger one."""
        return bisect_left(self._numbers, line)

    def behind(self, ordinal: int) -> int:
        """Return the index of the first row behind an ordinal."""
        return bisect_right(self.rows, ordinal, key=lambda row: row[1])

    def has_line(self, line: int) -> bool:
        at = self.index(line)
        return at < len(self._numbers) and self._numbers[at] == line


class KeptRows:
    """All regions of a label, in the order of their lines."""

    def __init__(self, regions: list[RawRegion]) -> None:
        self._regions = [KeptRegion(raw) for raw in regions]
        self._ends = [region.rows[-1][0] for region in self._regions]
        self._ordinals = sorted(row[1] for raw in regions for row in raw[3])

    def __iter__(self) -> Iterator[KeptRegion]:
        return iter(self._regions)

    def joined(self, begins_rest: Callable[[str], bool]) -> Iterator[KeptRegion]:
        """Yield the regions, each with those behind it whose first line is the rest of its report.

        A run-time's report may have pages between the word on the end and its stack.
        """
        last: KeptRegion | None = None
        for region in self._regions:
            label, kinds, cut, rows, before, streams, begins = region.raw
            if last is not None and last.raw[0] == label and begins_rest(rows[0][2]):
                _, _, _, first, before, of_first, at_first = last.raw
                both = (*first, *rows), before, of_first + streams, at_first + begins
                region = KeptRegion((label, kinds, cut, *both))
            elif last is not None:
                yield last
            last = region
        if last is not None:
            yield last

    def count(self, after: int, until: int) -> int:
        """Return how many rows have an ordinal behind `after`, up to `until`."""
        return max(0, bisect_right(self._ordinals, until) - bisect_right(self._ordinals, after))

    def above(self, line: int) -> str:
        """Return the text right above a line, of a record that is indented its head, if kept."""
        region, here = self.region(line - 1), self.region(line)
        indented = here is not None and here.rows[here.index(line)][2][:1].isspace()
        at = region.index(line - 1) if region is not None else -1
        while region is not None and at >= 0:
            text = region.rows[at][2]
            if not (indented and text[:1].isspace()):
                return text
            at -= 1
        return here.raw[4][-1] if here is not None and here.raw[4] else ""

    def region(self, line: int) -> KeptRegion | None:
        """Return the region that a line lies in."""
        at = bisect_left(self._ends, line)
        if at == len(self._regions) or self._regions[at].rows[0][0] > line:
            return None
        return self._regions[at]
