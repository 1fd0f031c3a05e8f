"""Known lines in what a process said before it ended: messages, exceptions."""

from postmortem.records import record


@record
class KnownWord:
    """One known line."""

    signature: str
    """Its id."""
    text: str
    where: str
    """``"abort message"``, ``"C++ exception"``, ``"Python exception"``."""
    tid: int | None = None


@record
class KnownWords:
    """All of them; there is at least one."""

    items: tuple[KnownWord, ...]
