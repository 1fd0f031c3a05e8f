"""The logs of a job as their report shows them."""

from collections.abc import Iterable

from postmortem.diagnose.ranks.attribution import Attempts, Attribution
from postmortem.facts.last_lines import LogExcerpt
from postmortem.facts.rank_logs import LogFailure, RankLogs
from postmortem.patterns import Pattern
from postmortem.records import record


@record
class SameTraceback:
    """A traceback that several ranks have, once."""

    failure: LogFailure
    writers: tuple[int, ...]
    count: int


@record
class RankLogsView:
    """All that the sections need."""

    logs: RankLogs
    blame: Attribution
    tracebacks: tuple[SameTraceback, ...]
    first: LogFailure | None
    """The failure of who failed first, if it wrote one."""
    attempts: Attempts
    excerpt: LogExcerpt | None = None
    """The line that the best diagnosis cites first, with its neighbours."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Files of folders that were not read, each with the reason."""

    def left_out_by_reason(self) -> dict[str, list[str]]:
        """Return the files that were not read by why they were not."""
        found: dict[str, list[str]] = {}
        for path, reason in self.left_out:
            found.setdefault(reason, []).append(path)
        return found


_NUMBER = Pattern(r"\d+")


def same_tracebacks(failures: Iterable[LogFailure]) -> tuple[SameTraceback, ...]:
    """Return tracebacks that end alike as one, those of the most ranks first."""
    groups: dict[object, list[LogFailure]] = {}
    for failure in failures:
        places = tuple((frame.file, frame.line) for frame in failure.frames)
        words = _NUMBER.sub("#", failure.said.message)
        groups.setdefault((failure.said.exception, words, places), []).append(failure)
    made = [
        SameTraceback(items[0], tuple(dict.fromkeys(f.writer for f in items)), len(items))
        for items in groups.values()
    ]
    return tuple(sorted(made, key=lambda same: (-same.count, same.failure.line)))
