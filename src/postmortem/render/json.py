"""Writes a report as JSON: the envelope of the schema, then the fields of its kind.

The same report gives the same bytes: no clock, no host, keys in the order of the schema. The
text is valid Unicode whatever bytes the evidence had, and holds no character that a terminal
would obey when someone prints the file.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import TextIO

from postmortem._version import __version__
from postmortem.patterns import Pattern
from postmortem.render import safe
from postmortem.report.contract import fill
from postmortem.report.contract.envelope import Envelope, Tail
from postmortem.report.model import Report

SCHEMA = "postmortem/1"

_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

_STANDS_FOR_INFINITY = "\0infinity\0"
_INFINITY = _ENCODE(_STANDS_FOR_INFINITY)
"""Written as 1e999: a number by RFC 8259, which readers take for infinity."""

# json.dumps escapes the C0 controls by itself. These it leaves: DEL and C1 (a terminal obeys
# U+009B as it does ESC [), bidirectional controls, zero-width characters, line separators.
_OBEYED = Pattern(
    "[\ud800-\udfff\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def render(report: Report, out: TextIO, *, version: str = __version__) -> None:
    """Write the report as one JSON document; `out` should be UTF-8."""
    out.write(as_text(report, version=version))


def as_text(report: Report, *, version: str = __version__) -> str:
    """Return the report as one JSON document."""
    whole = _whole(report, version)
    try:
        rows = _rows(whole)  # nearly every report has only what JSON has
    except (TypeError, ValueError):
        rows = _rows(_plain_document(whole))
    return "\n".join(["{", *map(_safe, rows), "}", ""])


def _safe(row: str) -> str:
    """Return a line without what a terminal would obey; nearly all are ASCII and short work."""
    if _INFINITY in row:
        row = row.replace(_INFINITY, "1e999")
    if not row.isascii():
        row = _OBEYED.sub(lambda match: _escape(match[0]), row)
    return row.replace("\x7f", _escape("\x7f")) if "\x7f" in row else row


def _rows(whole: dict[str, object]) -> list[str]:
    """Return the lines between the braces of the document."""
    rows: list[str] = []
    for key, value in whole.items():
        first, *more = _laid_out(value)
        rows += [f'  "{key}": {first}', *more]
        rows[-1] += ","
    rows[-1] = rows[-1][:-1]
    return rows


def _laid_out(value: object) -> list[str]:
    """Write a value in one line, a list of objects with a line for each: a thread, a module.

    That is what line tools can work with, and each line goes through json's fast encoder, which
    `indent` switches off (five times as long for 250 threads).
    """
    if isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        written: dict[int, str] = {}
        rows = [f"    {_row(item, written)}," for item in value]
        rows[-1] = rows[-1][:-1]
        return ["[", *rows, "  ]"]
    return [_ENCODE(value)]


def _row(item: object, written: dict[int, str]) -> str:
    """Write an object in one line; stacks and frames that threads share are written once.

    `written` has them by their `id`.
    """
    if not isinstance(item, dict) or next(reversed(item), None) != "frames":
        return _ENCODE(item)
    frames = item["frames"]
    if not isinstance(frames, list) or len(item) == 1:
        return _ENCODE(item)
    if id(frames) not in written:
        for frame in frames:
            if id(frame) not in written:
                written[id(frame)] = _ENCODE(frame)
        written[id(frames)] = ", ".join([written[id(frame)] for frame in frames])
    head = _ENCODE({key: value for key, value in item.items() if key != "frames"})
    return f'{head[:-1]}, "frames": [{written[id(frames)]}]}}'


def _whole(report: Report, version: str) -> dict[str, object]:
    """Return the report's fields in their order."""
    envelope = fill(Envelope, report, schema=SCHEMA, tool={"version": version})
    last = fill(Tail, report)
    body = {key: value for key, value in report.body.items() if key not in {*envelope, *last}}
    return {**envelope, **body, **last}


def _plain_document(whole: dict[str, object]) -> dict[str, object]:
    """Return the document with only what JSON has; raises TypeError that names a field."""
    try:
        plain = _plain(whole)
    except _NotJson as error:
        place = _place(whole, error.value, "report")
        kind = type(error.value).__name__
        raise TypeError(f"{place} is a {kind}, which JSON does not have") from None
    assert isinstance(plain, dict)
    return plain


def _plain(value: object) -> object:
    """Return a value with only what JSON has; raises _NotJson with one that it does not."""
    if isinstance(value, str):
        return value if value.isascii() else safe.without_surrogates(str(value))
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):  # JSON has no NaN and no infinity, but numbers of any size
        if math.isinf(value):
            return _STANDS_FOR_INFINITY if value > 0 else None
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {safe.without_surrogates(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return safe.without_surrogates(os.fsdecode(value))
    raise _NotJson(value)


class _NotJson(Exception):
    """A value that JSON does not have."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


def _place(value: object, wanted: object, where: str) -> str | None:
    """Return the name of the field that holds an object, for the message about it."""
    if value is wanted:
        return where
    items: Iterable[tuple[str, object]] = ()
    if isinstance(value, Mapping):
        items = ((f"{where}.{key}", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        items = ((f"{where}[{i}]", item) for i, item in enumerate(value))
    places = (_place(item, wanted, name) for name, item in items)
    return next((place for place in places if place is not None), None)


def _escape(character: str) -> str:
    if "\ud800" <= character <= "\udfff":  # not a character: a byte that is no UTF-8 (PEP 383)
        return safe.without_surrogates(character).replace("\\", "\\\\")
    return json.dumps(character)[1:-1] if ord(character) > 0x7F else "\\u007f"
