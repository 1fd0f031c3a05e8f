"""Known lines that a process wrote on standard error, as a log of its system calls has them."""

from __future__ import annotations

from postmortem.records import record


@record
class Spoken:
    """One call that wrote a known line to descriptor 2."""

    signature: str
    """Its id."""
    file: str
    line: int
    pid: int
    """0 where the log does not tell."""
    text: str
    """What was written, as strace quotes it; it may be cut (-s)."""


@record
class LastWords:
    """All of them, in the order of the logs."""

    spoken: tuple[Spoken, ...]
