"""How long a rank had written nothing before the line above its error, by those lines' clock."""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from postmortem.facts.last_lines import LastLine, Pause
from postmortem.facts.rank_logs import LogFailure, RankLogs
from postmortem.readers.log_heads import open_plain
from postmortem.readers.regular import size_of
from postmortem.records import replace
from postmortem.underway import Refused

_CLOCK = re.compile(rb"(?<!\d)([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:[.,](\d{1,6}))?(?!\d)")
_HEAD = 80
_MOST_BYTES = 64 << 20
_MOST_FILES = 64
_DAY = 86_400.0


def with_pauses(logs: RankLogs) -> RankLogs:
    """Return the logs, with the pauses of ranks whose peers were gone while others waited for one.

    Of files of one rank alone: they are read for it again.
    """
    if not any(one.first_said.match("peer-waited") for one in logs.failures):
        return logs
    ranks: dict[str, set[int | None]] = defaultdict(set)
    for one in logs.last_lines:
        ranks[one.last.file].add(logs.who(one.writer).rank)
    gone = (
        one
        for one in logs.failures
        if one.first_said.match("error-peer-closed") and len(ranks[one.file] - {None}) == 1
    )
    paused = {id(one): _pause(one) for one in islice(gone, _MOST_FILES)}
    if not paused:
        return logs
    failures = (
        replace(one, paused=paused[id(one)]) if id(one) in paused else one for one in logs.failures
    )
    return replace(logs, failures=tuple(failures))


def _pause(failure: LogFailure) -> Pause | None:
    before, last = 0.0, None
    try:
        for number, line in _above(failure):
            clock = _CLOCK.search(line, 0, _HEAD)
            if clock is not None:
                hours, minutes, seconds = (int(part) for part in clock.groups()[:3])
                at = hours * 3600 + minutes * 60 + seconds + float(b"0." + (clock[4] or b"0"))
                said = LastLine(line.decode("utf-8", "replace"), failure.file, number)
                last = Pause((at - before) % _DAY if last else 0.0, said)
                before = at
    except (OSError, Refused):
        return None
    return last


def _above(failure: LogFailure) -> Iterator[tuple[int, bytes]]:
    stream = open_plain(failure.file) if size_of(failure.file) <= _MOST_BYTES else None
    if stream is not None:
        with stream:
            for number, line in enumerate(islice(stream, failure.begin_line - 1), 1):
                yield number, line.strip()
