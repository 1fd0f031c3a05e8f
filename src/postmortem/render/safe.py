"""Makes text from evidence printable: what a dead process left must not steer a terminal.

Evidence is hostile or damaged by nature: a log line may hold ESC sequences that move the cursor
or set the clipboard, a path may hold bytes that are no UTF-8 (Python keeps them as lone
surrogates, PEP 383), an identifier may hold bidirectional overrides that show it reversed
(CVE-2021-42574). Everything that is not plainly printable becomes a visible escape.
"""

import re
import unicodedata
from functools import lru_cache

from postmortem.text import counted

LINE_LIMIT = 2_000
"""Characters of one value that are shown; a longer one is folded in its middle."""

BLOCK_LIMIT = 200
"""Lines of one text that are shown; a longer one is folded in its middle."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

# More marks than this on one letter climb into the lines above and below ("Zalgo" text). Real
# scripts stack at most four.
_STACKED_MARKS = 4


def line(text: str, *, limit: int = LINE_LIMIT) -> str:
    r"""Return text as one printable line: line breaks become ``\n``, other controls ``\xNN``."""
    return fold(_printable(text), limit)


def block(text: str, *, lines: int = BLOCK_LIMIT, limit: int = LINE_LIMIT) -> str:
    """Return text as printable lines joined by newlines; tabs become spaces."""
    rows = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if len(rows) > lines:
        head = (lines * 2 + 2) // 3
        tail = lines - head
        left_out = f"[{counted(len(rows) - lines, 'line')} left out]"
        rows = [*rows[:head], left_out, *rows[len(rows) - tail :]]
    return "\n".join(line(row.expandtabs(8), limit=limit) for row in rows)


def fold(text: str, limit: int) -> str:
    """Return text with its middle replaced by a count, when it is longer than `limit`."""
    if len(text) <= limit:
        return text
    head = max(limit * 2 // 3, 1)
    tail = max(limit - head, 0)
    left_out = f"[{len(text) - head - tail:,} characters left out]"
    return f"{text[:head]}… {left_out} …{text[len(text) - tail :]}"


def encodable(text: str, encoding: str | None) -> str:
    """Return text that a stream of this encoding can take; other characters are escaped."""
    codec = encoding or "ascii"
    try:
        text.encode(codec)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(codec, "backslashreplace").decode(codec)
    return text


def without_surrogates(text: str) -> str:
    r"""Return text that is valid Unicode: escaped bytes (PEP 383) become ``\xNN``."""
    return text if text.isascii() else re.sub("[\ud800-\udfff]", lambda m: _escape(m[0]), text)


# What our own prose uses, for streams that have only ASCII.
_ASCII = str.maketrans(
    {"…": "...", "·": "-", "→": "->", "←": "<-", "–": "-", "—": "-", "’": "'", "‘": "'"}
    | {"“": '"', "”": '"', "×": "x", "µ": "u", "≤": "<=", "≥": ">="}
)


def _printable(text: str) -> str:
    if text.isprintable():
        return text if text.isascii() else _unstacked(text)
    return _unstacked("".join(c if c.isprintable() else _escape(c) for c in text))


def _escape(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if unicodedata.category(character) == "Zs":  # no-break space and its kin
        return " "
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@lru_cache(1024)
def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me")


def _unstacked(text: str) -> str:
    if not any(map(_is_mark, text)):
        return text
    shown: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if _is_mark(character) else 0
        shown.append(character if marks <= _STACKED_MARKS else f"\\u{ord(character):04x}")
    return "".join(shown)
