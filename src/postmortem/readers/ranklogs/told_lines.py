"""Last lines beside what is told already: parts of failures, and errors of earlier runs."""

from bisect import bisect_right
from collections.abc import Iterable

from postmortem import thresholds
from postmortem.facts.last_lines import EarlierRuns, LastLines
from postmortem.readers.ranklogs.last_words import form_of, read_like, stopped
from postmortem.records import replace


class ToldLines:
    """Lines of a file that are parts of failures, which are told of, given as lines a to b."""

    def __init__(self, told: Iterable[tuple[int, int]]) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for begin, end in sorted(told):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def __contains__(self, line: int) -> bool:
        """Return whether a line is one of them."""
        at = bisect_right(self._begins, line) - 1
        return at >= 0 and line <= self._ends[at]


def without_told(found: LastLines, told: ToldLines) -> LastLines:
    """Return it without errors, where one of them is part of a failure."""
    if any(one.line in told for one in found.errors):
        above = next((one for one in found.errors if one.line not in told), None)
        return replace(found, errors=(), plain=False, nearest=above or found.nearest)
    near = found.nearest
    if near is not None and near.line in told:
        return replace(found, nearest_counts=False)
    return found


def with_earlier(found: LastLines, earlier: EarlierRuns | None, *, idle: bool) -> LastLines:
    """Return it with the error of an earlier run, where its own says nothing of errors.

    That counts where nobody who writes into the file tells of work, or of an end, and little was
    written behind it. Who stopped a run and began it anew did so himself.
    """
    before = earlier.before if earlier is not None else None
    if not earlier or not before or found.errors or found.nearest or found.not_a_number:
        return found
    ids, said = read_like([before.text, earlier.failed[0].text])
    idle = idle and found.last.line <= before.line + thresholds.END_LINES
    idle = idle and (earlier.others or not stopped(said))
    return replace(found, nearest=before, nearest_counts=idle, form=form_of(ids))
