"""Logs of one run each: in folders called after days, or of all ranks that a job has."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from postmortem.patterns import Pattern
from postmortem.readers.log_clock import text_ends, times_in
from postmortem.readers.log_ends import begin_of, first_line
from postmortem.readers.ranklogs.last_words import read_like, works
from postmortem.readers.ranklogs.world import Head, in_head

_DAY = Pattern(r"(?<!\d)20\d\d[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:[0-2]\d|3[01])(?!\d)(?=[^/]*/)")

_TIME = Pattern(r"(?:\d{2,4}[-/]\d\d[-/]\d{2,4}[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?")
_COUNTER = Pattern(r"(?<![\d.])\d+(?![\d.])")


def by_days(paths: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return folders in the order of their days, with what lies there; none if not all are runs.

    On each day the logs of the one before have to begin anew: those of a run that goes on over
    midnight begin with its work, and nodes that began on both sides of it have other names.
    """
    days: dict[tuple[str, str], dict[str, str]] = {}
    before = set()
    for path in paths:
        found = [*_DAY.finditer(path)]
        if not found:
            continue
        at = found[-1]
        before.add(path[: at.start()])
        folder, _, name = path[at.end() :].partition("/")
        key = "".join(filter(str.isdigit, at[0])), path[: at.end()] + folder
        days.setdefault(key, {})[name] = path
    order = [(folder, logs) for (_, folder), logs in sorted(days.items())]
    if len(before) != 1 or len({day for day, _ in days}) < max(2, len(days)):
        return []
    if not all(_begin_anew(a, b) for (_, a), (_, b) in pairwise(order)):
        return []
    return [(folder, [*logs.values()]) for folder, logs in order]


def _begin_anew(first: Mapping[str, str], then: Mapping[str, str]) -> bool:
    common = first.keys() & then.keys()
    pairs = [[first_line(text_ends(logs[name])[0]) for logs in (first, then)] for name in common]
    told = [(a, b) for a, b in pairs if a and b]
    return bool(told) and all(begin_of(a) == begin_of(b) and _is_begin(a, b) for a, b in told)


def _is_begin(first: str, then: str) -> bool:
    """Return whether a line is no work, or work that has been counted from where it began."""
    counted = [_COUNTER.findall(_TIME.sub("", line)) for line in (first, then)]
    return counted[0] == counted[1] or not any(map(works, read_like([then])))


def whole_jobs(paths: Sequence[str]) -> dict[str, list[str]]:
    """Return series of logs, each of which has that of every rank that its job has.

    They lie in a folder, or have one name but for the rank. None where ranks lie elsewhere too, or
    two of them were written at one time: nodes may count their ranks from 0 each.
    """
    series: dict[tuple[str, str], dict[str, Head]] = {}
    for path in paths:
        head = in_head(text_ends(path)[0].encode("latin-1"))
        if head.size:
            before, _, behind = Path(path).name.rpartition(str(head.rank))
            place = str(Path(path).parent), before if head.rank is not None else behind
            series.setdefault(place, {})[path] = head
    found: dict[str, list[str]] = {}
    spans = []
    for (folder, before), heads in series.items():
        size = max(head.size or 0 for head in heads.values())
        if size < 2 or sorted(head.rank or 0 for head in heads.values()) != [*range(size)]:
            return {}
        ends = [text_ends(path) for path in heads]
        times = [at for head, tail, _ in ends for at in (*times_in(head), *times_in(tail))]
        written = [changed for *_, changed in ends]
        spans.append((min(times or written), max(times or written)))
        alone = sum(place == folder for place, _ in series) == 1
        found[folder if alone else f"{folder}/{before.rstrip('_-.')}"] = [*heads]
    apart = all(one[1] < then[0] for one, then in pairwise(sorted(spans)))
    return found if apart and len(found) > 1 else {}
