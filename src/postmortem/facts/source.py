"""Where a fact comes from, and what could not be read."""

from __future__ import annotations

from postmortem.records import record


@record
class Source:
    """One input file as it was given."""

    path: str
    size_bytes: int
    compression: str | None = None
    """``"zstd"``, ``"lz4"``, ``"gzip"``, ``"xz"`` or None for a plain file."""
    truncated: bool = False


@record
class Problem:
    """A part of the evidence that could not be read; the rest of the report stands without it."""

    where: str
    what: str
    remedy: str | None = None
