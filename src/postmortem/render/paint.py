"""Writes lines of styled spans, with colours and links where the stream takes them."""

from collections.abc import Mapping
from typing import TextIO
from urllib.parse import quote

from rich.color import ColorSystem
from rich.style import Style as RichStyle

from postmortem.render.page import Line, Span, Style

# The sixteen colours only: every terminal has them, in shades that its owner can read.
_STYLES: dict[Style, RichStyle] = {
    "plain": RichStyle(),
    "title": RichStyle(bold=True),
    "label": RichStyle(color="cyan"),
    "strong": RichStyle(bold=True),
    "quiet": RichStyle(dim=True),
    "good": RichStyle(color="green"),
    "warning": RichStyle(color="yellow"),
    "bad": RichStyle(color="red"),
    "marker": RichStyle(color="yellow", bold=True),
}


class Painter:
    """Writes to one stream.

    Only the styles of rich are used: its console would take 0.3 ms a line (12,000 lines with
    --all on a job of 300 threads) to find out a layout that is known here.
    """

    def __init__(self, out: TextIO, *, color: bool) -> None:
        self._out = out
        self._system = ColorSystem.STANDARD if color else None

    def write(self, line: Line, links: Mapping[str, str] | None = None) -> None:
        """Write one line; a span that is a key of `links` leads to that file (OSC 8)."""
        spans = []
        for part, style in trimmed(line):
            text = _STYLES[style].render(part, color_system=self._system)
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
