"""Private keys whose lines stand apart: a log puts a rank and a time before each of them."""

import re
from collections.abc import Iterator, Sequence

from postmortem.patterns import Pattern

_BEGIN = "-----BEGIN "
_BEGINS = Pattern(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_ENDS = Pattern(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")

# A line of a key behind whatever stands before it; the last one may be short.
_BODY = Pattern(r"(?:^|[\s\"':>|\]])([A-Za-z0-9+/=]{4,76})(?:\\[nr])*[\s\"',]*$")
_WHOLE_LINE = 40

_LONGEST = 400
"""Lines of a key; one of 16,384 bits has 200, and other ranks may write between them."""


def key_parts(texts: Sequence[str]) -> Iterator[str]:
    """Yield the lines of keys that begin in one of the texts and go on in the next ones."""
    for index, text in enumerate(texts):
        if _BEGIN not in text:
            continue
        ended = text.rfind("-----END ")
        begins = (begin.end() for begin in _BEGINS.finditer(text))
        open_from = next((at for at in begins if at > ended), None)
        if open_from is not None:
            yield from _parts(text[open_from:], texts[index + 1 : index + 1 + _LONGEST])


def open_key(before: tuple[str, int] | None, lines: Sequence[str]) -> tuple[str, int] | None:
    """Return the line that begins a key which these lines do not end, and how many ago it was."""
    for number, line in enumerate(lines):
        begins = [*_BEGINS.finditer(line)]
        if _ENDS.search(line, begins[-1].end() if begins else 0) is not None:
            before = None
        elif begins:
            before = line, number - len(lines)
    if before is None:
        return None
    line, age = before
    age += len(lines)
    return (line, age) if age < _LONGEST else None


def _parts(rest: str, following: Sequence[str]) -> Iterator[str]:
    yield from re.findall(r"[A-Za-z0-9+/=]{40,76}", rest)
    short: list[str] = []
    for text in following:
        if _ENDS.search(text) is not None:
            yield from short[-1:]  # a short line is one of the key only right before its end
            return
        match = _BODY.search(text)
        if match is None:
            continue
        if len(match[1]) >= _WHOLE_LINE and _is_mixed(match[1]):
            yield match[1]
            short = []
        else:
            short.append(match[1])


def _is_mixed(text: str) -> bool:
    return any(map(str.isupper, text)) and any(map(str.islower, text))
