"""Logs of services beside a job, and whether the job came to its good end behind their errors."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from postmortem.facts.last_lines import LastLines
from postmortem.facts.rank_logs import Writer
from postmortem.knowledge.lookup import lines_of, load_table
from postmortem.patterns import Pattern
from postmortem.readers.log_clock import last_time
from postmortem.records import replace

_BESIDE = load_table("beside_jobs.toml")["beside"][0]
_LOGS = lines_of(_BESIDE["both"])
SCRIPT = Pattern(rf"(?:^|/)bin/(?:{'|'.join((*_LOGS, *lines_of(_BESIDE['script'])))})$")
"""The file of a program that stands beside a job."""
_SERVICE = Pattern(rf"(?i)(?:^|[-_.])(?:{'|'.join(_LOGS)})(?:[-_.]|$)")


def with_services(last: Sequence[LastLines], writers: Sequence[Writer]) -> Iterator[LastLines]:
    """Yield last lines, those of a service marked whose job worked on and ended well behind them.

    Both by the clocks of their files.
    """
    files = {one.last.file for one in last}
    services = {file for file in files if _SERVICE.search(Path(file).name)}
    over = [
        one.ended.file
        for one in last
        if one.ended is not None and (one.worked or one.printed) and one.ended.file not in services
    ]
    ends = (last_time(file) for file in dict.fromkeys(over if services else ()))
    until = max((at for at in ends if at is not None), default=0.0)
    for one in last:
        file, who = one.last.file, writers[one.writer]
        alone = who.rank is None and who.local_rank is None and not (one.worked or one.printed)
        known = until and one.errors and alone and file in services
        at = last_time(file) if known else None
        yield replace(one, beside=True) if at is not None and 0 < at < until else one
