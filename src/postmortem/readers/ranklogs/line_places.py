"""Where lines stand in a text: whole ones, or with whatever numbers."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from postmortem import _native

MOST = 256
"""A line that comes more often is none of a head."""
_LONGEST = 1000
_DIGITS_OF = re.compile(rb"\d+")
_FEWEST_LETTERS = 4
_SHORT = 1 << 20


def places_of(data: bytes, patterns: Iterable[str]) -> list[list[int]]:
    """Return where each pattern stands, in one pass over the text; one more than counts at most."""
    return _places(data, tuple(patterns))


def places_of_known(data: bytes, known: tuple[str, ...], more: list[str]) -> list[list[int]]:
    """Do the same where some patterns are those of each text.

    A short text is passed over twice, in less time than compiling the known ones takes.
    """
    if len(data) > _SHORT:
        return places_of(data, [*known, *more])
    return _places(data, known, _compiled(known)) + _places(data, tuple(more))


@cache
def _compiled(patterns: tuple[str, ...]) -> Any:
    return _native.compile_signatures(list(patterns))


def _places(data: bytes, patterns: tuple[str, ...], compiled: Any = None) -> list[list[int]]:
    compiled = compiled or _native.compile_signatures(list(patterns))
    found: list[list[int]] = [[] for _ in patterns]
    for number, begin, *_ in _native.scan_signatures(compiled, data, MOST + 1)[0]:
        found[number].append(begin)
    return found


def whole_lines(lines: Iterable[bytes]) -> list[str]:
    """Return patterns of whole lines; of long ones, of how they begin."""
    return [
        "^"
        + "".join(f"\\x{byte:02x}" for byte in line[:_LONGEST])
        + ("$" if len(line) <= _LONGEST else "")
        for line in lines
    ]


def alike(data: bytes, line: bytes) -> Iterator[int]:
    """Yield where a line stands, with whatever numbers."""
    whole = _DIGITS_OF.sub(rb"\\d+", re.escape(line)) + rb"[ \t\r]*(?:\n|$)"
    begin = _DIGITS_OF.split(line, maxsplit=1)[0]
    if len(begin) < _FEWEST_LETTERS:
        yield from (found.start() for found in re.finditer(b"(?m)^" + whole, data))
        return
    pattern, at = re.compile(whole), data.find(begin)  # which takes no time
    while at >= 0:
        if (at == 0 or data[at - 1 : at] == b"\n") and pattern.match(data, at):
            yield at
        at = data.find(begin, at + 1)
