"""Kind ``importing``: what came of importing a module."""

from __future__ import annotations

from postmortem.facts import importing
from postmortem.facts.importing import Cost
from postmortem.report.contract import Shape


class Raised(Shape, of=importing.Raised, without=("frames",)):
    pass


class Importing(Shape, of=importing.Importing, without=("status", "alike", "package", "found_at")):
    raised: Raised | None
    costs: list[Cost]
    """the 40 dearest first, by their own time"""
