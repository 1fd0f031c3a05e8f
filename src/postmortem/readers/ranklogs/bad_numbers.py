"""From which line on the numbers that a training prints are none."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, takewhile

from postmortem.facts.last_lines import LastLine, LastLines, Printed
from postmortem.facts.signature import Match
from postmortem.readers.log_heads import numbered_lines, open_plain
from postmortem.readers.ranklogs.last_words import wrong
from postmortem.readers.ranklogs.number_columns import MEASURES, STATE, bad_column
from postmortem.readers.signatures import Signatures
from postmortem.records import replace
from postmortem.text import without_numbers

NUMBERS = ("last-loss", "last-measure", "last-norm", "last-loss-left-out", "last-loss-nan")
"""Ids of lines that print a number of the training."""
_MOST_BYTES = 256 << 20
"""Of a log that is read again."""
_LONGEST_LINE = 1 << 20
_COUNT = re.compile(r"(?<![\w:.,-])\d{1,18}(?![\d:.,-]*\d)")
"""A number that is no part of a clock, a date or a fraction."""
_FEWEST_STEPS = 2
_VALUE = re.compile(r"(?<![\w.])(?:[Nn]a[Nn]|NAN|-?[Ii]nf|-?\d+\.\d[\d.eE+-]*)(?!\w)")
_MOST_VALUES = 8
_NAN, _LEFT_OUT = ("nan", "-nan"), "skipped"
NOT_FINITE = (*_NAN, "inf", "-inf", "infinity", "-infinity", _LEFT_OUT)
_OF_BEST = re.compile("(?i)best|min")
_NEAR_END = 256 << 10
"""Bytes at the end of a log in which its last numbers stand, whatever it printed behind them."""
_STEP = re.compile(
    r"(?i)(?<![a-z])(?P<what>step|iter(?:ation)?|it|batch|update|epoch)(?![a-z])"
    r"['\"]?\s*[:=#\[(]?\s*(?P<count>\d{1,12}(?:\.\d{1,12})?)(?![\d:.,]*\d)"
)
_EPOCH = "epoch"
_OF_LOSS = re.compile(f"(?i)loss|{MEASURES}".encode())
_LIKE_ONE = re.compile(r"[ :=('\"-](?:[Nn]a[Nn]|NAN|[Ii]nf)")
_WORDS = (b"nan", b"NaN", b"naN", b"Nan", b"NAN", b"inf", b"Inf")


def nan_since(found: LastLines, path: str) -> LastLines:
    """Return it with the line from which on the numbers are none, however far above that is."""
    last = found.not_a_number
    if last is None or not found.earlier:
        return found
    bad = _NAN if found.value == "NaN" else NOT_FINITE
    since = _first_bad(path, found.quantity, bad)
    if since is None or since[0] > (last.line or since[0]):
        return found
    line = LastLine(since[1], path, since[0])
    return replace(found, not_a_number=line, earlier=False)


def nan_above(found: LastLines, path: str) -> LastLines:
    """Return it with numbers that are none above the last lines, where samples or tables follow."""
    state = path.endswith(STATE)
    if (found.not_a_number is not None and not state) or found.nearest_counts or found.errors:
        return found
    if state or path.endswith(".csv") or found.last.text.startswith("{"):
        column = bad_column(path)
        if column is not None:
            row = LastLine(column.text, path, column.line)
            return replace(found, not_a_number=row, quantity=column.name, value="NaN")
    try:
        stream = open_plain(path)
        if stream is None:
            return found
        with stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _NEAR_END))
            data = stream.read(_NEAR_END)
    except OSError:
        return found
    if not any(word in data for word in _WORDS):
        return found  # nothing else is done for the logs of most ranks
    lines = [line for line in data.splitlines() if _OF_LOSS.search(line)]
    rows = [LastLine(line.decode("utf-8", "replace").strip(), path, 0) for line in lines]
    if not any(may_be_bad(row.text) for row in rows):
        return found
    known = Signatures.load("last line").matches(row.text for row in rows)
    line, name, value, _ = last_bad(rows, known, fewest=_FEWEST_STEPS)
    if line is None:
        return found
    bad = replace(found, not_a_number=line, quantity=name, value=value, earlier=True)
    since = nan_since(bad, path)
    return found if since.earlier else since


def with_step(found: LastLines) -> LastLines:
    """Return it with the step of the line from which on the numbers are none, as that calls it.

    Of an epoch where no step is told.
    """
    if found.not_a_number is None:
        return found
    told = [(m["what"].lower(), m["count"]) for m in _STEP.finditer(found.not_a_number.text)]
    told.sort(key=lambda one: one[0] == _EPOCH)
    return replace(found, step=" ".join(told[0])) if told else found


def _first_bad(path: str, quantity: str, bad: Sequence[str]) -> tuple[int, str] | None:
    """Return the first line of the last run of numbers that are none."""
    name = quantity.encode()
    known = {item.id: item for item in Signatures.load("last line").signatures}
    forms = [re.compile((known[one].pattern or "").encode()) for one in NUMBERS]
    first: tuple[int, str] | None = None
    for number, line in numbered_lines(path, most=_MOST_BYTES, longest=_LONGEST_LINE):
        if name not in line:
            continue
        hits = [m for form in forms if (m := form.search(line)) and m["name"] == name]
        values = [hit["value"] for hit in hits]
        if any(value.lower().decode() in bad for value in values):
            first = first or (number, line.decode("utf-8", "replace").strip())
        elif values:
            first = None
    return first


def last_bad(
    lines: Sequence[LastLine], found: Sequence[tuple[Match, ...]], *, fewest: int
) -> tuple[LastLine | None, str, str, bool]:
    """Return from where on a number that is printed again and again is none, to the end.

    Also what it is called, what it is, and whether it was that in all lines. `fewest` times are
    enough. Infinite is told of a loss alone, and of two lines: a gradient scaler leaves such
    gradients out, and a search for the best loss begins with it.
    """
    printed: dict[str, list[tuple[LastLine, str]]] = {}
    for line, row in zip(lines, found, strict=True):
        said = _is_message(line.text, row)
        for match in row:
            if match.id in NUMBERS and not said:
                printed.setdefault(match["name"], []).append((line, match["value"].lower()))
    for name, values in printed.items():
        bad = [*takewhile(lambda one: one[1] in _NAN, reversed(values))]
        if len(bad) >= fewest:
            return bad[-1][0], name, "NaN", len(bad) == len(values)
        bad = [*takewhile(lambda one: one[1] in NOT_FINITE, reversed(values))]
        if len(bad) >= _FEWEST_STEPS and "loss" in name.lower() and not _OF_BEST.search(name):
            kind = "left out" if bad[0][1] == _LEFT_OUT else "infinite"
            return bad[-1][0], name, kind, len(bad) == len(values)
    return None, "", "", False


def _is_message(text: str, row: Sequence[Match]) -> bool:
    """Return whether a line tells of an error, or is code that raises one: it prints no number."""
    return bool(wrong(tuple(match.id for match in row))) or text.lstrip().startswith("raise ")


def may_be_bad(text: str) -> bool:
    """Return whether a line may print a number that is none: a look that costs little."""
    return _LIKE_ONE.search(text) is not None


def printed(lines: Sequence[LastLine], found: Sequence[tuple[Match, ...]]) -> tuple[Printed, ...]:
    """Return the numbers that are printed; the step is the last number before them that rises."""
    rows: dict[str, list[tuple[list[int], LastLine, bool]]] = {}
    for line, row in zip(lines, found, strict=True):
        for match in row:
            if match.id in NUMBERS:
                for head, value in _values(line.text, match):
                    counts = [int(one[0]) for one in _COUNT.finditer(head)]
                    bad = value.lower() in NOT_FINITE
                    rows.setdefault(without_numbers(head), []).append((counts, line, bad))
    return tuple(_printed(form, mine) for form, mine in rows.items())


def _values(text: str, match: Match) -> Iterator[tuple[str, str]]:
    """Yield a number, and those behind it in its line: a rank's own, a mean; with all before it."""
    head, _, rest = text.partition(match["name"])
    head += match["name"]
    yield head, match["value"]
    for one in islice(_VALUE.finditer(rest), 1, _MOST_VALUES):
        yield head + _VALUE.sub("0", rest[: one.start()]), one[0]


def _printed(form: str, rows: Sequence[tuple[list[int], LastLine, bool]]) -> Printed:
    columns = [*zip(*(counts for counts, _, _ in rows), strict=False)]
    rising = [i for i, column in enumerate(columns) if all(a < b for a, b in pairwise(column))]
    bad = len([*takewhile(lambda row: row[2], reversed(rows))])
    line = rows[-bad][1] if bad else None
    if not rising or len(rows) < _FEWEST_STEPS:
        return Printed(form, -1, 0, line)
    steps = columns[rising[-1]]
    since = steps[-bad] if bad else 0
    return Printed(form, rising[-1], steps[-1], line, since, bad < len(rows))
