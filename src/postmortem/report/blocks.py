"""The blocks that sections build and every renderer draws. Text is evidence: never markup."""

from enum import StrEnum

from postmortem.records import record


class Tone(StrEnum):
    """What a piece of text is, from which a renderer chooses how to show it."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"
    QUIET = "quiet"
    STRONG = "strong"


@record
class Prose:
    """A paragraph, with an optional heading."""

    text: str
    title: str | None = None


@record
class KeyValues:
    """Short facts, one a row: ``process   python train.py``."""

    rows: tuple[tuple[str, str], ...]
    title: str | None = None


@record
class Table:
    """Rows under column heads; cells wrap, the last column takes what is left."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str | None = None
    right_aligned: tuple[int, ...] = ()
    """Indices of the columns with numbers."""


@record
class BacktraceLine:
    """One frame, or a fold of several: then `index` is None and `function` says how many."""

    function: str
    index: int | None = None
    module: str | None = None
    """Short name of the library."""
    location: str | None = None
    """``train.py:31``."""
    note: str | None = None
    """What this frame does, in plain words."""
    marker: str | None = None
    """``the message``: why the reader should look here."""
    tone: Tone = Tone.PLAIN
    details: tuple[tuple[str, str], ...] = ()
    """Arguments and locals, shown under the line."""


@record
class Backtrace:
    """One stack, innermost frame first."""

    title: str
    lines: tuple[BacktraceLine, ...]
    subtitle: str | None = None


@record
class Excerpt:
    """Lines of evidence as they stand in it: ``(number, text)``."""

    title: str
    lines: tuple[tuple[int | None, str], ...]


@record
class Note:
    """One remark that stands alone."""

    text: str
    tone: Tone = Tone.PLAIN


Block = Prose | KeyValues | Table | Backtrace | Excerpt | Note
