"""Writes lines of styled spans, with colours and links where the stream takes them."""

from collections.abc import Mapping
from typing import TextIO
from urllib.parse import quote

from postmortem.render.page import Line, Span, Style

# Parameters of SGR (ECMA-48, 8.3.117). Of the colours only the sixteen: every terminal has them, in
# shades that its owner can read.
_STYLES: dict[Style, str] = {
    "plain": "",
    "title": "1",
    "label": "36",
    "strong": "1",
    "quiet": "2",
    "good": "32",
    "warning": "33",
    "bad": "31",
    "marker": "1;33",
}


class Painter:
    """Writes to one stream."""

    def __init__(self, out: TextIO, *, color: bool) -> None:
        self._out = out
        self._color = color

    def write(self, line: Line, links: Mapping[str, str] | None = None) -> None:
        """Write one line; a span that is a key of `links` leads to that file (OSC 8)."""
        spans = []
        for part, style in trimmed(line):
            code = _STYLES[style] if self._color and part else ""
            text = f"\x1b[{code}m{part}\x1b[0m" if code else part
            target = links.get(part.rstrip()) if links else None
            spans.append(text if target is None else _linked(text, target))
        self._out.write("".join(spans) + "\n")


def _linked(text: str, path: str) -> str:
    if not path.startswith("/"):
        return text
    url = "file://" + quote(path, errors="surrogateescape")
    return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\"


def trimmed(line: Line) -> list[Span]:
    """Drop the spaces at the end of a line: they show when a report is pasted."""
    spans = list(line)
    while spans:
        text, style = spans[-1]
        kept = text.rstrip()
        if kept:
            spans[-1] = (kept, style)
            break
        spans.pop()
    return spans
