"""The card: what a report says on the first screen, in at most 15 lines."""

from postmortem.facts.confidence import Confidence
from postmortem.facts.last_lines import LogExcerpt
from postmortem.records import record


@record
class Place:
    """A line of code that the reader should look at, with what was there."""

    function: str
    file: str | None = None
    """As the evidence names it."""
    line: int | None = None
    module: str | None = None
    """Short name of the library, of a native frame."""
    values: tuple[tuple[str, str], ...] = ()
    """Arguments and locals, the likely culprits first."""
    source: tuple[tuple[int, str], ...] = ()
    """Lines around it, with their numbers."""
    doubt: str | None = None
    """Why the source may not be the one that ran: ``changed since``."""


@record
class Highlights:
    """What one kind of report puts on its card, beside the verdict and the best diagnosis."""

    places: tuple[Place, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    """Short facts in place of, or beside, frames: the chain of an incident, the hits of a query."""
    headline: str | None = None
    """Where the verdict says in one sentence what the rows show."""
    rest: str | None = None
    """Who else is in the evidence, counted: ``ranks 0-1 are victims``."""
    steps: tuple[str, ...] = ()
    """What to do, where no diagnosis says it."""
    excerpt: LogExcerpt | None = None
    """Lines of a log around the one that is cited first, in place of frames."""


@record
class Card:
    """The conclusion of a report, for a reader who reads nothing else."""

    headline: str
    failed: bool
    places: tuple[Place, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    why: str = ""
    confidence: Confidence | None = None
    steps: tuple[str, ...] = ()
    rest: str = ""
    footer: tuple[str, ...] = ()
    """Parts of the last line, the most important first."""
    near: tuple[tuple[str, str], ...] = ()
    """Those of the rows that only stand around another, the most wanted first."""
    quoted: tuple[str, str] | None = None
    """That of the rows which the headline may show as a whole, or the beginning of it."""
