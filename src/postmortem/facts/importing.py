"""What came of importing a module in a process of its own."""

from __future__ import annotations

from postmortem.facts.signature import Known, Match
from postmortem.records import record


@record
class Raised(Known):
    """The exception that the import ended with."""

    type: str
    message: str
    module: str | None
    """Of an ImportError: the module that it is about."""
    file: str | None
    """Of an ImportError: the file that it is about."""
    frames: tuple[tuple[str, int, str], ...]
    """File, line and function, the outermost first; without those of importlib."""
    matches: tuple[Match, ...] = ()


@record
class Shadow:
    """A file of the current folder, or of one on PYTHONPATH, that stands before an installed module
    of its name."""

    name: str
    file: str
    hides: str


@record
class Cost:
    """What one module took to import, in seconds: itself, and with all that it imports."""

    name: str
    own: float
    total: float


@record
class Importing:
    """One import."""

    name: str
    python: str
    """The interpreter."""
    seconds: float
    file: str | None = None
    """Where the module came from; None if it was not imported."""
    version: str | None = None
    raised: Raised | None = None
    signal: str | None = None
    """What killed the process."""
    status: int = 0
    timed_out: float | None = None
    """After so many seconds it was ended."""
    loading: str | None = None
    """The extension that was being loaded last."""
    stack: tuple[str, ...] = ()
    """Python's stack when it crashed or was ended, the innermost first: ``"a.py:3 in f"``."""
    shadows: tuple[Shadow, ...] = ()
    alike: tuple[str, ...] = ()
    """Installed modules with nearly the name of one that is missing; of a package that is there,
    its own."""
    package: str | None = None
    """The version of the package that is there and lacks the module; "" if it tells none."""
    found_at: tuple[str, ...] = ()
    """Where a library lies that the loader did not find."""
    costs: tuple[Cost, ...] = ()
    """The dearest first, by their own time."""
