"""Kind ``importing``: what came of importing a module."""

from __future__ import annotations

from postmortem.report.contract import Shape


class Raised(Shape):
    type: str
    message: str
    module: str | None
    file: str | None


class Shadow(Shape):
    name: str
    file: str
    hides: str


class Cost(Shape):
    name: str
    own: float
    """seconds, without what it imports"""
    total: float


class Importing(Shape):
    name: str
    python: str
    seconds: float
    file: str | None
    """where it came from; null if it was not imported"""
    version: str | None
    raised: Raised | None
    signal: str | None
    timed_out: float | None
    loading: str | None
    """the extension that was loaded last"""
    stack: list[str]
    shadows: list[Shadow]
    costs: list[Cost]
    """the 40 dearest first, by their own time"""
