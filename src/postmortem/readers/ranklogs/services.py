"""Logs of services beside a job, and whether the job came to its good end behind their errors."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from postmortem.facts.last_lines import LastLines
from postmortem.facts.rank_logs import Writer
from postmortem.patterns import Pattern
from postmortem.readers.log_clock import text_ends, times_in
from postmortem.records import replace

_SERVICE = Pattern(
    r"(?i)(?:^|[-_.])(?:(?:dcgm|node|gpu|nvidia)[-_]?exporter|tensorboard|prometheus(?=\.|-server)|pushgateway|"
    r"grafana|fluent-?(?:bit|d)|promtail|filebeat|telegraf|otel[-_]?(?:col\w*|agent))(?:[-_.]|$)"
)
"""Names of files of what watches a job, shows it or ships its logs: none of them does its work."""


def with_services(last: Sequence[LastLines], writers: Sequence[Writer]) -> Iterator[LastLines]:
    """Yield last lines, those of a service marked whose job worked on and ended well behind them.

    Both by the clocks of their files.
    """
    over = [
        one.ended.file
        for one in last
        if one.ended is not None and (one.worked or one.printed) and not _is_service(one.ended.file)
    ]
    until = max((at for file in dict.fromkeys(over) if (at := _last_time(file))), default=0.0)
    for one in last:
        file, who = one.last.file, writers[one.writer]
        alone = who.rank is None and who.local_rank is None and not (one.worked or one.printed)
        known = until and one.errors and alone and _is_service(file)
        at = _last_time(file) if known else 0.0
        yield replace(one, beside=True) if 0 < at < until else one


def _is_service(file: str) -> bool:
    return _SERVICE.search(Path(file).name) is not None


def _last_time(file: str) -> float:
    return max(times_in(text_ends(file)[1]), default=0.0)
