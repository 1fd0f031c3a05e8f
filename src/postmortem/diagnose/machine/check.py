"""What a check is: what is there, why it matters, and the command that mends it."""

from __future__ import annotations

from typing import Literal

from postmortem.records import record

State = Literal["ok", "warning", "missing", "failed"]
CORE_CHECKS = ("core limit", "core_pattern", "coredump_filter")
"""Where "missing" means that no core, or none with a stack, comes into our hands."""
NEEDED_CHECKS = ("native reader",)
"""Where "missing" means that `postmortem core` cannot work."""


@record
class Check:
    """One finding: what is there, why it matters for evidence, and the command that mends it."""

    name: str
    status: State
    found: str
    why: str
    fix: str | None = None
    command: str | None = None
    """Shows the same to people."""
    said: str | None = None
    """The finding as a sentence, where name and finding make none."""
