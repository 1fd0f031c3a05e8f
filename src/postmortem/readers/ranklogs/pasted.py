"""Reports with a log in them, as people paste both: its blocks, and what a page ran together."""

import re
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import TypeAlias

from postmortem.readers.ranklogs.last_words import has, read_like
from postmortem.readers.ranklogs.lines import looks_like_log

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
    # What stands between two blocks keeps them apart, where it does not read like an error itself.
    between = [line for part in parts[1:-1] if part in prose for line in part]
    ids = read_like(line.decode("utf-8", "replace") for line in between)
    kept = {line for line, row in zip(between, ids, strict=True) if not has(row, _TELLING)}
    around -= kept

    def peel(line: bytes) -> bytes:
        if _FENCE.match(line):
            return b""
        if line.rstrip(b"\r") not in around:
            return line
        said = _SAID.search(line)
        return said[0] if said else b""

    return peel


def _is_prose(lines: Sequence[bytes]) -> bool:
    """Return whether lines announce a block, or have code of Markdown's within them."""
    few = 0 < len(lines) <= _MOST_PROSE
    return few and (lines[-1].rstrip().endswith(b":") or any(map(_INLINE.search, lines)))
