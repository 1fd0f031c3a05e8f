"""From which row on a loss is none in a table of metrics.

That is CSV under a header, JSON by lines, or what the Trainer of Transformers keeps of its state.

There a number that was not taken may stand as one that is none: a loss of validation between two
epochs. So it counts where it was finite before, and is none for far longer than ever before; or
where it always was a number, until the rows at the end have no other loss either.
"""

import csv
import json
import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from io import TextIOWrapper
from pathlib import Path
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
_KNOWN_ROWS = 5
"""Numbers before, without a gap, after which one row is enough."""
STATE = "trainer_state.json"
_LATEST = Pattern(r"(?i)(?<![a-z])(?:val(?:id(?:ation)?)?|eval|test|dev)(?![a-z])")
"""Of a loss that may not be taken yet where a training stopped."""
_OF_TENSORBOARD = ["Wall time", "Step", "Value"]
_OF_NORM = "grad_norm"
"""What is none where the loss is told as 0: `logging_nan_inf_filter` of the Trainer."""
_DIGIT = Pattern(r"\d")
MEASURES = "mse|mae|nll|ppl|perplexity|elbo|entropy"
"""What a loss may be called."""
_OF_LOSS = Pattern(rf"(?i)loss|(?<![a-z])(?:r?{MEASURES})(?![a-z])")


class BadColumn(NamedTuple):
    """A loss that is none from a row to the end."""

    line: int
    text: str
    name: str


class _Taken(NamedTuple):
    """A number of a table."""

    line: int
    text: str
    name: str
    """With the form of its row."""
    bad: bool
    alone: bool = False
    """It is literally no number, and no other loss of its row is one."""


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
        if path.endswith(STATE):
            return _first_bad(_of_state(text))
        stream.seek(max(0, size - _NEAR_END))
        if (b"null" if json_lines else b"nan") not in stream.read().lower():
            return None
        stream.seek(0)
        return _first_bad(_of_json(text) if json_lines else _of_csv(text, Path(path).stem))


def _of_json(lines: Iterable[str]) -> Iterator[_Taken]:
    """Yield the numbers of rows.

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
                bad = value is None or math.isnan(value)
                yield _Taken(number, line, f"{name}\0{form}", bad, value is not None and not others)


def _of_state(lines: Iterable[str]) -> Iterator[_Taken]:
    """Yield the numbers of the entries of `log_history`, which has a line for each of them."""
    entry: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.strip() == "{":
            entry = []
        elif line.strip() in ("}", "},") and entry:
            try:
                row = json.loads("{" + "".join(entry) + "}")
            except (ValueError, RecursionError):
                continue
            text = ", ".join(part.strip().rstrip(",") for part in entry)
            for place, name in enumerate(row):
                value = row[name]
                if type(value) is float and (_OF_LOSS.search(name) or name == _OF_NORM):
                    at = number - len(entry) + place
                    yield _Taken(at, text, name, math.isnan(value), alone=True)
            entry = []
        else:
            entry.append(line)


def _of_csv(lines: Iterable[str], called: str) -> Iterator[_Taken]:
    """Yield the numbers of rows; what TensorBoard exports of one is named by its file alone."""
    rows = csv.reader(lines)
    head = next(rows, [])[:_MOST_COLUMNS]
    tag = called.rpartition("tag-")[2]
    names = [*enumerate([*head[:2], tag] if head == _OF_TENSORBOARD else head)]
    losses = [(place, name) for place, name in names if _OF_LOSS.search(name)]
    for row in rows if losses else ():
        taken = []
        for place, name in losses:
            try:
                taken.append((name, float(row[place])))
            except (ValueError, IndexError):
                continue  # not taken in this row
        others = any(math.isfinite(value) for _, value in taken)
        for name, value in taken:
            yield _Taken(rows.line_num, ",".join(row), name, math.isnan(value), not others)


def _first_bad(numbers: Iterable[_Taken]) -> BadColumn | None:
    since: dict[str, BadColumn] = {}
    runs: dict[str, int] = {}
    longest: dict[str, int] = {}
    finite: dict[str, int] = {}
    beside: set[str] = set()  # other losses are numbers where this one is none
    for one in numbers:
        name = one.name
        if one.bad:
            since.setdefault(name, BadColumn(one.line, one.text.strip(), name.partition("\0")[0]))
            runs[name] = runs.get(name, 0) + 1
            beside |= set() if one.alone else {name}
        else:
            longest[name] = max(longest.get(name, 0), runs.pop(name, 0))
            finite[name] = finite.get(name, 0) + 1
            since.pop(name, None)

    def told(name: str) -> bool:
        if name not in longest:
            return False
        always = not longest[name] and name not in beside and finite[name] >= _KNOWN_ROWS
        few = always and not _LATEST.search(name.partition("\0")[0])
        return few or runs[name] >= max(_FEWEST_ROWS, _OFTENER * longest[name] + 1)

    return min((column for name, column in since.items() if told(name)), default=None)
