"""Breaks text into lines of a width, at places where a reader can join it again.

Widths are terminal cells: an East Asian wide character takes two, a combining mark none
(Unicode Annex 11). Nothing is ever cut: what does not fit goes on the next line.
"""

import unicodedata
from bisect import bisect
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate

from postmortem.patterns import Pattern

# Where a long word (a path, a C++ name, a command) may be broken: after these.
_SEAMS = Pattern(r"(?<=::)|(?<=\w/)|(?<=[,;=&|])|(?<=[_-])(?=\w)|(?<=[)>])(?=\w)")
_SEPARATED = Pattern(r"\s{2,}")


def cells(text: str) -> int:
    """Return how many terminal cells a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cell, text))


def beginning(text: str, width: int) -> str:
    """Return as much of a text, from its start, as so many cells hold."""
    return text[: bisect([*accumulate(map(_cell, text))], width)]


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return text filled up with spaces to a width in cells."""
    fill = " " * max(width - cells(text), 0)
    return fill + text if right else text + fill


@lru_cache(256)  # a card tries several layouts
def wrapped(text: str, width: int) -> tuple[str, ...]:
    """Return the lines of a text, none wider than `width` cells unless one character is.

    Line breaks in the text stay. Parts separated by two or more spaces are kept whole where a
    line can hold them, because that is how reports set facts apart.
    """
    width = max(width, 1)
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines.extend(_wrap_paragraph(paragraph.rstrip(), width))
    return tuple(lines)


def _wrap_paragraph(text: str, width: int) -> list[str]:
    if cells(text) <= width:
        return [text]
    indent = text[: len(text) - len(text.lstrip())]
    if len(indent) * 2 > width:
        indent = ""
    lines: list[str] = []
    current = ""
    position = len(text) - len(text.lstrip())
    for part, gap in _parts(text[position:]):
        joined = f"{current}{gap}{part}" if current else indent + part
        if cells(joined) <= width:
            current = joined
            continue
        if current:
            lines.append(current)
            current = ""
        if cells(indent + part) <= width:
            current = indent + part
            continue
        *full, current = _wrap_words(part, width - len(indent))
        lines.extend(indent + line for line in full)
        current = indent + current
    return [*lines, current]


def _parts(text: str) -> Iterator[tuple[str, str]]:
    start, gap = 0, ""
    for match in _SEPARATED.finditer(text):
        yield text[start : match.start()], gap
        start, gap = match.end(), match.group()
    yield text[start:], gap


def _wrap_words(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cells(joined) <= width:
            lines[-1] = joined
        elif cells(word) <= width:
            lines.append(word)
        else:
            _place_long(word, width, lines)
    return lines


def _place_long(word: str, width: int, lines: list[str]) -> None:
    # A long word starts on the line it is on if a piece of sensible size fits there.
    pieces = [piece for piece in _SEAMS.split(word) if piece]
    first = f"{lines[-1]} {pieces[0]}" if lines[-1] else pieces[0]
    if lines[-1] and cells(first) <= width:
        lines[-1] = first
        pieces = pieces[1:]
    elif lines[-1]:
        lines.append("")
    for piece in pieces:
        if cells(lines[-1]) + cells(piece) <= width:
            lines[-1] += piece
        elif cells(piece) <= width:
            lines.append(piece)
        else:
            _place_seamless(piece, width, lines)


def _place_seamless(piece: str, width: int, lines: list[str]) -> None:
    used = cells(lines[-1])
    for character in piece:
        size = _cell(character)
        if used + size > width and lines[-1]:
            lines.append("")
            used = 0
        lines[-1] += character
        used += size


@lru_cache(1024)
def _cell(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
