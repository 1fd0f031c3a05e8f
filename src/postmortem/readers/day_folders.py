"""Folders called after days, each with the logs of one run of the same program."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from postmortem.patterns import Pattern
from postmortem.readers.log_clock import text_ends
from postmortem.readers.log_ends import begin_of
from postmortem.readers.ranklogs.last_words import read_like, works

_DAY = Pattern(r"(?<!\d)20\d\d[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:[0-2]\d|3[01])(?!\d)(?=[^/]*/)")


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
    heads = [(text_ends(first[name])[0], text_ends(then[name])[0]) for name in common]
    told = [(begin_of(a), begin_of(b)) for a, b in heads if a and b]
    begun = [b.lstrip().partition("\n")[0] for _, b in heads]
    return bool(told) and all(a == b for a, b in told) and not any(map(works, read_like(begun)))
