"""How long a rank had written nothing before the line above its error, by those lines' clock."""

import re
from collections import defaultdict
from itertools import islice

from postmortem.facts.last_lines import LastLine, Pause
from postmortem.facts.rank_logs import LogFailure, RankLogs
from postmortem.readers.log_heads import numbered_lines
from postmortem.records import replace

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
    above = islice(numbered_lines(failure.file, most=_MOST_BYTES), failure.begin_line - 1)
    for number, line in above:
        text = line.strip()
        clock = _CLOCK.search(text, 0, _HEAD)
        if clock is not None:
            hours, minutes, seconds = (int(part) for part in clock.groups()[:3])
            at = hours * 3600 + minutes * 60 + seconds + float(b"0." + (clock[4] or b"0"))
            said = LastLine(text.decode("utf-8", "replace"), failure.file, number)
            last = Pause((at - before) % _DAY if last else 0.0, said)
            before = at
    return last
