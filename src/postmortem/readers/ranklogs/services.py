"""Logs of services beside a job, and whether the job came to its own end behind their errors.

Both by the clocks of their files.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from postmortem.facts.last_lines import LastLine, LastLines
from postmortem.facts.rank_logs import LogFailure, Writer
from postmortem.knowledge.lookup import lines_of, load_table
from postmortem.patterns import Pattern
from postmortem.readers.log_clock import last_time
from postmortem.records import replace

_BESIDE = load_table("beside_jobs.toml")["beside"][0]
_LOGS = lines_of(_BESIDE["both"])
SCRIPT = Pattern(rf"(?:^|/)bin/(?:{'|'.join((*_LOGS, *lines_of(_BESIDE['script'])))})$")
"""The file of a program that stands beside a job."""
_SERVICE = Pattern(rf"(?i)(?:^|[-_.])(?:{'|'.join(_LOGS)})(?:[-_.]|$)")


class Services:
    """Of the last lines of all files, those of services beside a job, and how far the job came."""

    def __init__(self, last: Sequence[LastLines], failures: Sequence[LogFailure]) -> None:
        self._files = {file for one in last if _SERVICE.search(Path(file := one.last.file).name)}
        raised = {failure.file for failure in failures} - self._files
        self._until = 0.0
        self._last: LastLine | None = None
        for one in last if self._files else ():
            file, ended = one.last.file, one.ended is not None and (one.worked or one.printed)
            if file not in self._files and (ended or file in raised):
                at = last_time(file) or 0.0
                if at > self._until:
                    self._until, self._last = at, one.last

    def _outlived(self, file: str) -> bool:
        """Return whether the job worked on, to its own end, behind the last word of a service."""
        at = last_time(file) if file in self._files and self._until else None
        return at is not None and 0 < at < self._until

    def marked(self, last: Sequence[LastLines], writers: Sequence[Writer]) -> Iterator[LastLines]:
        """Yield last lines, those marked of a service that its job outlived."""
        for one in last:
            who = writers[one.writer]
            alone = who.rank is None and who.local_rank is None and not (one.worked or one.printed)
            beside = bool(one.errors) and alone and self._outlived(one.last.file)
            yield replace(one, beside=True) if beside else one

    def survived(self, failures: Sequence[LogFailure]) -> list[LogFailure]:
        """Return failures; behind what a service raised stands how far its job came."""
        return [
            replace(one, work=one.work or self._last) if self._outlived(one.file) else one
            for one in failures
        ]
