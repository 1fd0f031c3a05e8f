"""From which row on a loss is none in a table of metrics: CSV under a header, or JSON by lines.

There a number that was not taken may stand as one that is none: a loss of validation between two
epochs. So it counts where it was finite before, and is none for far longer than ever before.
"""

import csv
import json
import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from io import TextIOWrapper
from typing import NamedTuple

from postmortem.patterns import Pattern
from postmortem.readers.log_heads import open_plain
from postmortem.readers.regular import size_of

_MOST_BYTES = 256 << 20
_NEAR_END = 256 << 10
"""Bytes at the end; where they hold nothing that is no number, the rest is not read."""
_MOST_COLUMNS = 1000
_FEWEST_ROWS = 3
_OFTENER = 2
"""Times the longest earlier run, that the last one must be longer than."""
_DIGIT = Pattern(r"\d")
MEASURES = "mse|mae|nll|ppl|perplexity|elbo|entropy"
"""What a loss may be called."""
_OF_LOSS = Pattern(rf"(?i)loss|(?<![a-z])(?:r?{MEASURES})(?![a-z])")


class BadColumn(NamedTuple):
    """A loss that is none from a row to the end."""

    line: int
    text: str
    name: str


def bad_column(path: str) -> BadColumn | None:
    """Return the first loss of a table that is none to the end; None for any other text."""
    try:
        size = size_of(path)
        return _column(path, size) if 0 < size <= _MOST_BYTES else None
    except (OSError, csv.Error):
        return None


@lru_cache(maxsize=8)
def _column(path: str, size: int) -> BadColumn | None:
    """Return it for a file of this size: whether a table is a log is asked before it is read."""
    stream = open_plain(path)
    if stream is None:
        return None
    with TextIOWrapper(stream, "utf-8-sig", "replace", newline="") as text:
        json_lines = stream.read(1) == b"{"
        stream.seek(max(0, size - _NEAR_END))
        if (b"null" if json_lines else b"nan") not in stream.read().lower():
            return None
        stream.seek(0)
        return _first_bad(_of_json(text) if json_lines else _of_csv(text))


def _of_json(lines: Iterable[str]) -> Iterator[tuple[int, str, str, bool]]:
    """Yield where a number stands, its name with the form of its row, and whether it is none.

    `null` is also what a row of another phase has, which tells other losses.
    """
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(row, dict) or not _OF_LOSS.search(line):
            continue
        words = (v for v in row.values() if isinstance(v, str) and not _DIGIT.search(v))
        form = "\0".join((*row, *words))
        losses = [(k, v) for k, v in row.items() if _OF_LOSS.search(k)]
        others = any(type(v) in (int, float) and math.isfinite(v) for _, v in losses)
        for name, value in losses:
            if type(value) in (int, float) or (value is None and not others):
                yield number, line, f"{name}\0{form}", value is None or math.isnan(value)


def _of_csv(lines: Iterable[str]) -> Iterator[tuple[int, str, str, bool]]:
    rows = csv.reader(lines)
    names = [*enumerate(next(rows, ())[:_MOST_COLUMNS])]
    losses = [(place, name) for place, name in names if _OF_LOSS.search(name)]
    for row in rows if losses else ():
        for place, name in losses:
            try:
                yield rows.line_num, ",".join(row), name, math.isnan(float(row[place]))
            except (ValueError, IndexError):
                continue  # not taken in this row


def _first_bad(numbers: Iterable[tuple[int, str, str, bool]]) -> BadColumn | None:
    since: dict[str, BadColumn] = {}
    runs: dict[str, int] = {}
    longest: dict[str, int] = {}
    for line, text, name, bad in numbers:
        if bad:
            since.setdefault(name, BadColumn(line, text.strip(), name.partition("\0")[0]))
            runs[name] = runs.get(name, 0) + 1
        else:
            longest[name] = max(longest.get(name, 0), runs.pop(name, 0))
            since.pop(name, None)
    found = (
        column
        for name, column in since.items()
        if name in longest and runs[name] >= max(_FEWEST_ROWS, _OFTENER * longest[name] + 1)
    )
    return min(found, default=None)
