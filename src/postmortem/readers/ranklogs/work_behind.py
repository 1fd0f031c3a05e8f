"""Whether the program behind an error went on: work of its own writer, or a calm line below."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from postmortem import thresholds
from postmortem.facts.last_lines import LastLine
from postmortem.facts.rank_logs import LogFailure
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.above import texts_before
from postmortem.readers.ranklogs.answers import (
    before_done,
    began_anew,
    logged_on,
    rising,
    says_done,
    tried_again,
    went_on_behind,
    within_text,
    works_on,
)
from postmortem.readers.ranklogs.last_words import (
    AGAIN,
    CLOSING,
    Ids,
    calm,
    calm_behind,
    done,
    passed_over,
    read_like,
    strong,
    survived,
    works,
    wrong,
)
from postmortem.readers.ranklogs.launchers import Launchers
from postmortem.readers.ranklogs.services import SCRIPT
from postmortem.readers.ranklogs.writers import Label, Writers

if TYPE_CHECKING:
    from postmortem._native import RawPlainLine

_STARTED = Pattern(
    r"\b(?:exit(?:ed)?|code|status|returned|rc)\b(?: (?:code|status|with))*"
    r"\W{0,3}-?\d{1,3}\W{1,3}Traceback"
)
"""Who started a program tells of its end, and what it printed behind that."""
_VERY_LAST = 3
FEW_WRITERS = 16
"""For each of so many a file may be read again, up to a long traceback."""


class WorkBehind:
    """Looks behind the errors of all writers, in the order of their lines."""

    def __init__(
        self,
        labels: Sequence[Label],
        writers: Writers,
        launchers: Mapping[int, Launchers],
        attempt: Callable[[int, int], int | None],
    ) -> None:
        self._labels = labels
        self._writers = writers
        self._launchers = launchers
        self._attempt = attempt
        self._in_file = Counter(label.file.path for label in labels)
        self._caught: set[object] = set()
        """Where errors were raised behind which their program worked: it survives each of them."""
        self._ends: dict[str, list[str]] = {}
        """The last lines of files that were read again."""
        self._work_of: dict[int, list[RawPlainLine]] = {}
        self._alive: dict[tuple[int, int | None], LastLine] = {}
        """A line of work of a writer alone, by its attempt: an end above it was none."""

    def work(self, position: int, failure: LogFailure) -> tuple[LastLine | None, bool]:
        """Return the last line that tells of work behind an error, and whether it is its own."""
        shown, own = self._found(position, failure)
        place = position, self._attempt(position, failure.line)
        if shown is None:
            later = self._alive.get(place)
            above = later is not None and (later.line or 0) > failure.line
            return (later, True) if above else (None, own)
        if not self._writers.writers[self._writers.index(position)].shared:
            self._alive[place] = shown
        return shown, own

    def _found(self, position: int, failure: LogFailure) -> tuple[LastLine | None, bool]:
        """Return the same of what stands behind this error alone.

        Where no prefix tells ranks apart those that go on for a while may be the others, and what
        a process printed before an exception that nothing caught may come through another pipe
        behind it. Then there must be a good many such lines, or one of them ends the log.
        """
        label = self._labels[position]
        if (answer := went_on_behind(label.raw["tail"], failure)) is not None:
            return answer, False
        if shown := self._beside(position, failure) or self._of_started(position, failure):
            return shown, False
        if not self._ended(position):
            data = within_text(label.raw["tail"], failure)
            if data is not None:
                return data, False
        shared = self._writers.writers[self._writers.index(position)].shared
        may = not (shared and failure.uncaught)
        if may and (answer := tried_again(label.raw["tail"], failure)) is not None:
            return answer, not shared
        attempt, rows = self._attempt(position, failure.line), self._lines_of_work(position)
        well = not shared and says_done(label.raw["tail"])
        found: list[RawPlainLine] = []
        for row in reversed(rows[bisect_right(rows, (failure.line + 1,)) :]):
            new = row[2] >= failure.begin_line
            fewest = thresholds.WORK_ALIKE if new and not well else thresholds.WORK_VALUES
            if row[3] >= fewest and self._attempt(position, row[0]) == attempt:
                found.append(row)
                if len(found) == thresholds.WORK_OF_OTHERS:
                    break
        place = (position, attempt, failure.frames, failure.said.exception)
        again = bool(failure.caught_in or failure.logged) and place in self._caught
        if not found and (on := works_on(label.raw["tail"], failure)) is not None:
            return on, not shared
        if not found:
            return self._logged_only(position, failure, again), False
        number, text, since, _ = found[0]
        if (shared or failure.uncaught) and len(found) < thresholds.WORK_OF_OTHERS:
            ends = any(row[0] == number for row in before_done(label.raw["tail"])[-_VERY_LAST:])
            anew = not self._ended(position) and began_anew(label.raw["tail"], failure)
            if (len(found) < _VERY_LAST or not ends) and not anew and not again:
                return self._logged_only(position, failure, again), not shared
        self._caught.add(place)
        return LastLine(text, label.file.path, number, since), not shared

    def works_below(self, path: str, line: int) -> bool:
        """Return whether a line of a file has work behind it, whoever does it."""
        return self._work_in(path, line) is not None

    def tried_again_below(self, path: str, line: int) -> bool:
        """Return whether a file says behind a line that its program tries again, and is at work.

        Or that all is done; no error that ends something stands behind that.
        """
        ids = self._ids_below(path, line)
        at = next((at for at, names in enumerate(ids) if AGAIN in names), len(ids))
        below = ids[at:]
        on = any(works(names) or done(names, last=False) for names in below)
        return on and not any(map(strong, below))

    def calm_below(self, path: str, line: int) -> bool:
        """Return whether a file goes on calmly behind a line, and no error ends anything there."""
        ids = self._ids_below(path, line)
        return sum(map(calm, ids)) > 1 and not any(map(strong, ids))

    def _ids_below(self, path: str, line: int) -> list[Ids]:
        tail = [x for one in self._labels if one.file.path == path for x in one.raw["tail"]]
        return read_like(row[1] for row in sorted(tail) if row[0] > line)

    def _work_in(self, path: str, line: int) -> LastLine | None:
        for label in self._labels:
            tail = [row for row in label.raw["tail"] if row[0] > line]
            tail = tail if label.file.path == path else []
            rows = zip(tail, read_like(row[1] for row in tail), strict=True)
            work = [row for row, ids in rows if works(ids) and not wrong(ids)]
            last = work[-1] if work else rising(tail, thresholds.WORK_VALUES + 1)
            if last is not None:
                return LastLine(last[1], path, last[0])
        return None

    def _beside(self, position: int, failure: LogFailure) -> LastLine | None:
        """Return what tells of the job's work where a program raised that only stands beside it."""
        frame = failure.frames[0] if failure.uncaught and failure.frames else None
        if frame is None or SCRIPT.search(frame.file or "") is None:
            return None
        for at, label in enumerate(self._labels):
            rows = [row for row in label.raw["tail"] if at != position or row[0] > failure.line]
            ids = read_like(row[1] for row in rows)
            for row, names in zip(reversed(rows), reversed(ids), strict=True):
                if survived(names) or done(names, last=True):
                    return LastLine(row[1], label.file.path, row[0], row[2])
        return None

    def _of_started(self, position: int, failure: LogFailure) -> LastLine | None:
        """Return the line behind a traceback that is told, with its code, of a program started.

        Of whom tells that, or of the job's work.
        """
        rows = self._labels[position].raw["tail"]
        head = next((row[1] for row in rows if row[0] == failure.begin_line), "")
        if _STARTED.search(head) is None:
            return None
        below = [row for row in rows if row[0] > failure.line]
        path = self._labels[position].file.path
        if below:
            return LastLine(below[0][1], path, below[0][0])
        return self._work_in(path, failure.line)

    def _logged_only(self, position: int, failure: LogFailure, again: bool) -> LastLine | None:
        """Return the calm line behind a traceback that somebody wrote under words of his own."""
        few, within = failure.lines_after <= thresholds.CAUGHT_LINES, bool(failure.caught_in)
        alone = failure.logged and not self._ended(position)
        if not few and not within and not alone:
            return None
        label = self._labels[position]
        tail, writer = label.raw["tail"], self._writers.writers[self._writers.index(position)]
        rows = [row for row in tail if row[0] < failure.begin_line]
        above = [row[1] for row in rows]
        if rows and not failure.uncaught and rows[-1][0] + 2 >= failure.begin_line:
            number, text, since, _ = rows[-1]
            if passed_over(text):
                return LastLine(text, failure.file, number, since)
        behind = [row for row in tail if row[0] > failure.line]
        writers = self._in_file[label.file.path]
        near = bool(behind) and behind[0][0] <= failure.line + 2  # the tail reaches up to it
        if (alone or (near and not above)) and writers <= FEW_WRITERS:
            above = self._texts_above(label, failure.begin_line)
        logged = few and (again or not writer.shared or says_done(tail))
        texts = [row[1] for row in behind]
        said, closing = failure.said.message, above[-1 - CLOSING :]
        at = logged_on(above, texts) if alone else None
        if at is None and (few or within):
            at = calm_behind(closing, texts, said, logged=logged, warned=near and within)
        if at is None:
            return None
        number, text, since, _ = behind[at]
        return LastLine(text, label.file.path, number, since)

    def _texts_above(self, label: Label, line: int) -> list[str]:
        path, last = label.file.path, label.raw["last_line"]
        if path not in self._ends:
            self._ends[path] = texts_before(path, last + 1, thresholds.END_LINES)
        texts = self._ends[path]
        return texts[: max(0, len(texts) - (last + 1 - line))]

    def _ended(self, position: int) -> bool:
        """Return whether a launcher's word on an end stands among the lines."""
        return position in self._launchers and bool(self._launchers[position].exits)

    def _lines_of_work(self, position: int) -> list[RawPlainLine]:
        if position not in self._work_of:
            raw = self._labels[position].raw
            rows = (row for row in (*raw["tail"], *raw["work"]) if row[2])
            known = {(row[0], row[3]): row for row in rows}  # a bar is drawn again in one line
            self._work_of[position] = [known[place] for place in sorted(known)]
        return self._work_of[position]
