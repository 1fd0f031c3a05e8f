"""When a log began, and when it last told of work, by the clock of its file.

The times in a log are of a zone that it does not tell. Where the last of them is the file's last
change but for whole quarters of an hour, the zone is known, and that the file was not copied.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from postmortem.facts.inventory import Inventory, Kind, Result
from postmortem.patterns import Pattern
from postmortem.readers.codecs import StreamError
from postmortem.readers.formats import compression_of
from postmortem.readers.log_heads import plain_pieces
from postmortem.readers.ranklogs.last_words import done, read_like, works
from postmortem.readers.regular import open_regular
from postmortem.records import record

_STAMP = Pattern(r"\b20\d\d-[01]\d-[0-3]\d[ T][0-2]\d:[0-5]\d:[0-5]\d")
_AT_BYTE = Pattern(r"at byte [\d,]+$")
_NO_DIGIT = Pattern(r"\D")
_HEAD, _TAIL = 4 << 10, 64 << 10
_MOST_PACKED = 1 << 20
_ZONE, _FARTHEST = 900, 15 * 3600
_EXACT = 5.0
"""Seconds between the last line with a time and the last change of its file."""
_MOST_LINES = 400
_MOST_LOGS = 64
_AT_ONCE = 2.0
_STAMPED = 1.0
"""Seconds that a time stamp may be short of."""
_LAST_PAUSES = 8
LATER = 3.0
"""Seconds that work must have gone on behind a look at it."""


@record
class LogSpan:
    """Seconds since the epoch."""

    began: float | None
    """None where the clock of one log is not known."""
    worked: float | None
    """None where no line with a time tells of work."""
    pause: float = 0.0
    """The longest between two of the last lines of work of one log."""


def span_of(paths: Iterable[str]) -> LogSpan | None:
    """Return what logs of one job tell together; None where no clock is known, or of very many."""
    held = [*islice((path for path in paths if not _is_empty(path)), _MOST_LOGS + 1)]
    if len(held) > _MOST_LOGS:
        return None
    spans = [one for path in held if (one := _span(path)) is not None]
    if not spans:
        return None
    began = [one.began for one in spans if one.began is not None]
    worked = [one.worked for one in spans if one.worked is not None]
    pause = max(one.pause for one in spans)
    return LogSpan(
        min(began) if len(began) == len(held) else None, max(worked, default=None), pause
    )


def worked_behind(span: LogSpan | None, path: str) -> bool:
    """Return whether a job went on with its work behind the last change of a file."""
    changed = written(path)
    later = span.worked if span is not None else None
    return later is not None and changed is not None and later > changed + LATER


def at_work(span: LogSpan | None, path: str) -> bool:
    """Return whether a job was at work at the last change of a file, or behind it.

    It was where no more time had gone by since its last line than between two of them: nobody can
    see that a job hangs before its next line is late.
    """
    changed = written(path)
    if span is None or span.worked is None or changed is None:
        return False
    due = span.worked + span.pause + _STAMPED if span.pause else span.worked - LATER
    return changed < due


def began_behind(span: LogSpan | None, path: str) -> bool:
    """Return whether a job's logs begin behind the last change of a file."""
    changed = written(path)
    began = span.began if span is not None else None
    return began is not None and changed is not None and began > changed + _EXACT


@record
class ByClock:
    """What the clock says of reports, by their index: which are no part of the end, and which are.

    Reports are counted as they come; those that could not be read do not count.
    """

    outdated: dict[int, str]
    """Why it tells nothing of how the job ended."""
    of_the_end: frozenset[int]
    """A core, or a recording, that was written last as the logs were, where the job ran."""


def by_clock(results: Iterable[Result], found: Inventory) -> ByClock:
    """Return what the times of files tell of their reports."""
    documents = [(one.reading, one.document) for one in results if one.document is not None]
    read = [reading for reading, _ in documents]
    logs = {item.path: item.size_bytes for item in found.of(Kind.LOG)}
    paths = [p for one in read if one.kind == "logs" for p in one.paths if p in logs]
    span, ended = span_of(paths), max(filter(None, map(written, paths)), default=None)
    told: dict[int, str] = {}
    at_end = set()
    here = {Path(path).resolve().parent.name for path in paths}
    calm = [one for one, document in documents if one.kind == "logs" and document.get("done")]
    all_done = bool(calm) and len(calm) == sum(one.kind == "logs" for one in read)
    done = {Path(p).name: logs[p] for one in calm for p in one.paths if p in logs}
    for index, (one, document) in enumerate(documents):
        if one.kind == "core" and began_behind(span, one.paths[0]):
            told[index] = "it was written before the logs begin"
        outlived = one.kind == "core" and all_done and worked_behind(span, one.paths[0])
        looked = document["kind"] == "hang"
        grew = looked and (worked_behind(span, one.paths[0]) or _grew(document, done))
        if outlived or grew:
            told[index] = "the job went on after it" + ", to its good end" * outlived
        ran = document.get("process", {}).get("env", {}).get("PWD", "").rpartition("/")[2]
        where = ran in here if one.kind == "core" else span is not None
        if one.kind in ("core", "strace") and where and ended is not None:
            changed = max(filter(None, map(written, one.paths)), default=0.0)
            if abs(changed - ended) <= _AT_ONCE:
                at_end.add(index)
    return ByClock(told, frozenset(at_end))


def _grew(document: Mapping[str, Any], done: Mapping[str, int]) -> bool:
    """Return whether a process, as stacks show it, wrote to a log that ended well, and is longer.

    `done` has the sizes of such logs by name.
    """
    rows = [row for one in document.get("processes", ()) for row in one.get("descriptors", ())]
    places = ((Path(row["target"]).name, _AT_BYTE.match(row["detail"] or "")) for row in rows)
    return any(at and int(_NO_DIGIT.sub("", at[0])) < done.get(name, 0) for name, at in places)


def written(path: str) -> float | None:
    """Return when a file was changed last; None where it is gone."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return None


def text_ends(path: str) -> tuple[str, str, float]:
    """Return the first and the last bytes of a file, unpacked, and when it was written to last.

    Of one that cannot be read, or is gone by now, nothing.
    """
    try:
        with open_regular(path) as stream:
            head = stream.read(_HEAD)
            status = os.fstat(stream.fileno())
            stream.seek(max(0, status.st_size - _TAIL))
            tail = stream.read(_TAIL)
        if compression_of(head) is not None and status.st_size <= _MOST_PACKED:
            head = tail = b""
            for piece in plain_pieces(path):
                head, tail = head or piece[:_HEAD], (tail + piece)[-_TAIL:]
    except (OSError, StreamError):
        return "", "", 0.0
    return head.decode("latin-1"), tail.decode("latin-1"), status.st_mtime


def times_in(text: str) -> Iterator[float]:
    """Yield the times in a text."""
    return (at for one in _STAMP.finditer(text) if (at := seconds_of(one[0])))


def last_time(path: str) -> float | None:
    """Return the latest time at the end of a log, as its clock shows it; None without any."""
    return max(times_in(text_ends(path)[1]), default=None)


def seconds_of(stamp: str) -> float:
    """Return seconds since the epoch, by this machine's zone as all stamps of texts."""
    try:
        return datetime.strptime(_NO_DIGIT.sub("", stamp), "%Y%m%d%H%M%S").timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _is_empty(path: str) -> bool:
    try:
        return Path(path).stat().st_size == 0
    except OSError:
        return False


def _span(path: str) -> LogSpan | None:
    head, tail, changed = text_ends(path)
    times = [*times_in(head), *times_in(tail)]
    if len(times) < 2 or times[-1] + _EXACT < max(times):
        return None
    zone = round((changed - times[-1]) / _ZONE) * _ZONE
    if abs(changed - times[-1] - zone) > _EXACT or abs(zone) > _FARTHEST:
        return None
    worked = [at + zone for at in islice(_work(tail), _LAST_PAUSES)]
    pause = max((a - b for a, b in pairwise(worked)), default=0.0)
    return LogSpan(min(times) + zone, worked[0] if worked else None, pause)


def _work(tail: str) -> Iterator[float]:
    """Yield the times of lines that tell of work, the last one first."""
    lines = [line for line in tail.splitlines()[-_MOST_LINES:] if _STAMP.search(line)]
    for line, ids in zip(reversed(lines), reversed(read_like(lines)), strict=True):
        if works(ids) or done(ids, last=True):
            yield next(times_in(line), 0.0)
