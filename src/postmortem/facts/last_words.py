"""Known lines that processes wrote on standard error before they ended badly."""

from postmortem.records import record


@record
class Spoken:
    """One known line; a log of system calls has the text that was written."""

    signature: str
    """Its id."""
    text: str
    pid: int
    """0 where the log does not tell."""
    file: str
    line: int
    """Where the log says that the process ended."""


@record
class LastWords:
    """All of them, in the order of the logs and of the lines."""

    spoken: tuple[Spoken, ...] = ()


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
