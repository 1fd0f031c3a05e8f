"""Reports with a log in them, as people paste both: its blocks, and what a page ran together."""

import re
from collections.abc import Callable, Sequence
from itertools import chain, groupby, pairwise
from typing import TypeAlias

from postmortem.readers.ranklogs.last_words import Ids, has, read_like
from postmortem.readers.ranklogs.lines import TRACEBACK, looks_like_log

Peel: TypeAlias = Callable[[bytes], bytes]
"""One line to what it holds."""

_FENCE = re.compile(rb"\s*(?:```|~~~)\s*[\w+.-]*\s*$")
_FENCE_OF = re.compile(rb"\s*(?:```|~~~)\s*[\w+.-]")
_INLINE = re.compile(rb"(?<!`)`[^`]+`(?!`)")
_SAID = re.compile(rb"\b\w*(?:Error|Exception): [^`]+|[^\s`*]+:\d+: \w+_ASSERT\([^`]+\) failed")
_FLAT = re.compile(rb'\(most recent call last\): +File "')
_FLAT_FRAME = re.compile(rb' +(File "[^"]*", line \d+, in \S+) ?')
_FLAT_END = re.compile(rb" ((?:\w+\.)*\w*(?:Error|Exception): .*)$")
_MOST_PROSE = 6
QUOTE = re.compile(rb"> ?")
_FRAME = re.compile(rb'^\s*File "[^"]+", line \d')
_WRONG = "last-error-"
_TELLING = ("last-error-", "last-alone-", "last-few")
_NEAR = 25
"""Lines of a report before and behind the log that it holds."""


def flat(lines: Sequence[bytes]) -> Peel | None:
    """Return what breaks a traceback into lines that a page without fences has run together."""
    if not any(map(_FLAT.search, lines)):
        return None

    def peel(line: bytes) -> bytes:
        if not _FLAT.search(line):
            return line
        return _FLAT_END.sub(rb"\n\1", _FLAT_FRAME.sub(rb"\n  \1\n    ", line))

    return peel


def fenced(lines: Sequence[bytes]) -> Peel | None:
    """Return what leaves of a report the blocks that hold its log, and errors that it quotes."""
    fences = [i for i, line in enumerate(lines) if _FENCE.match(line)]
    if not fences:
        return None
    parts = [lines[a + 1 : b] for a, b in pairwise((-1, *fences, len(lines)))]
    first = bool(parts[0]) and not _FENCE_OF.match(lines[fences[0]])
    inside = 1
    if len(fences) == 1 and first and not _is_prose(parts[0]):
        inside = 0  # the other one is cut off
        if parts[1]:
            return None
    elif first and _is_prose(parts[1]) and not _is_prose(parts[0]):
        inside = 0  # what announces something stands between two blocks
    blocks = frozenset(chain(*parts[inside::2]))
    prose = parts[1 - inside :: 2]
    around = frozenset(chain(*prose))
    if not blocks or blocks & around or max(map(len, prose)) > _NEAR:
        return None
    if len(fences) > 2 and len(around) < sum(map(len, prose)):
        return None  # nobody writes a sentence twice: a program prints samples
    if any(looks_like_log(line.decode("utf-8", "replace")) for line in around):
        return None
    between = [line for part in parts[1:-1] if part in prose for line in part]
    around -= _apart(between)

    def peel(line: bytes) -> bytes:
        if _FENCE.match(line):
            return b""
        if line.rstrip(b"\r") not in around:
            return line
        said = _SAID.search(line)
        return said[0] if said else b""

    return peel


def quoted(lines: Sequence[bytes]) -> Peel | None:
    """Return what leaves of an answer, or of a letter, what it quotes; the rest is who writes."""
    marked = [is_quoted(line) for line in lines]
    own = [line for line, mark in zip(lines, marked, strict=True) if not mark]
    runs = [len([*run]) for mark, run in groupby(marked) if not mark]
    if not own or len(own) * 2 > len(lines) or max(runs) > _NEAR or any(map(_is_log, own)):
        return None
    if any(has(row, _WRONG) for row in _read(own)):
        return None  # npm marks the commands that it runs
    first, last = marked.index(True), len(marked) - marked[::-1].index(True)
    between = [line for at, line in enumerate(lines) if first < at < last and not marked[at]]
    around = frozenset(own) - _apart(between)

    def peel(line: bytes) -> bytes:
        if is_quoted(line):
            return QUOTE.sub(b"", line, count=1)
        return b"" if line.rstrip(b"\r") in around else line

    return peel


def is_quoted(line: bytes) -> bool:
    """Return whether a line has the mark of a quotation, and is none of Python's at its prompt."""
    return line.startswith(b">") and not line.startswith(b">>>")


def _is_log(line: bytes) -> bool:
    text = line.decode("utf-8", "replace")
    return looks_like_log(text) or TRACEBACK in line or _FRAME.search(line) is not None


def _apart(lines: Sequence[bytes]) -> frozenset[bytes]:
    """Return those lines that do not read like an error themselves: they keep two parts apart."""
    rows = zip(lines, _read(lines), strict=True)
    return frozenset(line for line, row in rows if not has(row, _TELLING))


def _read(lines: Sequence[bytes]) -> list[Ids]:
    return read_like(line.decode("utf-8", "replace") for line in lines)


def _is_prose(lines: Sequence[bytes]) -> bool:
    """Return whether lines announce a block, or have code of Markdown's within them."""
    few = 0 < len(lines) <= _MOST_PROSE
    return few and (lines[-1].rstrip().endswith(b":") or any(map(_INLINE.search, lines)))
