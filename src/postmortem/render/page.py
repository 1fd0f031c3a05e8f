"""A page: how wide it is, what its stream can show, and the plain shapes that all parts use."""

from typing import Literal

from postmortem.records import record
from postmortem.render import safe
from postmortem.render.wrapping import cells, padded, wrapped
from postmortem.report.blocks import Tone

Style = Literal["plain", "title", "label", "strong", "quiet", "good", "warning", "bad", "marker"]
Span = tuple[str, Style]
Line = tuple[Span, ...]

LABEL_WIDTH = 10
"""Column where values start: labels up to 8 characters and two spaces."""

MEASURE = 112
"""Sentences are not set wider than this, whatever the terminal: the eye loses the line."""

TONES: dict[Tone, Style] = {
    Tone.PLAIN: "plain",
    Tone.GOOD: "good",
    Tone.BAD: "bad",
    Tone.WARNING: "warning",
    Tone.QUIET: "quiet",
    Tone.STRONG: "strong",
}


@record
class Page:
    """How wide lines may be and which characters the stream takes."""

    width: int
    encoding: str = "utf-8"
    verbose: bool = False

    @property
    def unicode(self) -> bool:
        """Whether arrows and ellipses can be written."""
        try:
            "…·→←".encode(self.encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    @property
    def measure(self) -> int:
        """Width of running text."""
        return min(self.width, MEASURE)

    def glyph(self, fancy: str) -> str:
        """Return one of our own symbols in a form that the stream takes."""
        return fancy if self.unicode else safe.encodable(fancy, "ascii")

    def clean(self, text: str, *, limit: int = safe.LINE_LIMIT) -> str:
        """Return evidence as one printable line."""
        return safe.encodable(safe.line(text, limit=limit), self.encoding)

    def clean_block(self, text: str) -> str:
        """Return evidence as printable lines."""
        return safe.encodable(safe.block(text), self.encoding)


def hanging(
    page: Page,
    text: str,
    *,
    indent: int,
    first: Line = (),
    style: Style = "plain",
    width: int | None = None,
) -> list[Line]:
    """Lay text out at an indent; `first` stands before it on the first line."""
    rows = wrapped(text, max((width or page.measure) - indent, 8))
    lead = first or ((" " * indent, "plain"),)
    return [
        (*(lead if i == 0 else ((" " * indent, "plain"),)), (r, style)) for i, r in enumerate(rows)
    ]


def labelled(
    page: Page, label: str, text: str, *, indent: int = 0, column: int = LABEL_WIDTH
) -> list[Line]:
    """Lay out ``label     text`` with the text hanging at its column."""
    start = indent + column
    if cells(label) + 2 > column:  # the label is too long for the column: it gets its own line
        head: Line = ((" " * indent, "plain"), (label, "label"))
        return [head, *hanging(page, text, indent=start)]
    first: Line = ((" " * indent, "plain"), (padded(label, column), "label"))
    return hanging(page, text, indent=start, first=first)


def heading(page: Page, title: str, subtitle: str | None = None) -> list[Line]:
    """Lay out a title, its subtitle at the right edge or below."""
    lines: list[Line] = [((row, "title"),) for row in wrapped(page.clean(title), page.measure)]
    if not subtitle:
        return lines
    shown = page.clean(subtitle)
    room = page.measure - cells(lines[-1][0][0]) - cells(shown)
    if room >= 2:
        lines[-1] = (*lines[-1], (" " * room, "plain"), (shown, "quiet"))
        return lines
    return [*lines, *hanging(page, shown, indent=2, style="quiet")]


def line_cells(line: Line) -> int:
    """Return how many cells a line takes."""
    return sum(cells(text) for text, _ in line)
