"""What an installed handler has to know, and what was there before it."""

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from postmortem.partial import new_file
from postmortem.records import record

HOME = Path("/var/lib/postmortem")
"""Of root alone to write; the kernel starts what lies here."""
PROGRAM = HOME / "core-handler"
_STATE = HOME / "core-handler.json"


@record
class Settings:
    """How cores are kept, and the core_pattern to go back to."""

    folder: str
    most_bytes: int
    most_days: float
    before: str
    """core_pattern as it was."""
    pattern: str
    """core_pattern as we set it."""


def load() -> Settings | None:
    """Return what is installed; None if nothing is, or nothing that can be read."""
    try:
        return Settings(**json.loads(_STATE.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def save(settings: Settings) -> None:
    """Write it, for root alone; raises OSError."""
    words = {name: getattr(settings, name) for name in Settings.__annotations__}
    write_private(_STATE, json.dumps(words, indent=1) + "\n", 0o600)


def forget() -> None:
    """Remove what `save` and the installation wrote; cores stay."""
    for path in (_STATE, PROGRAM):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the cores may lie in it
        HOME.rmdir()


def write_private(path: Path, text: str, mode: int) -> None:
    """Put a file of root's in its place, whole; raises OSError."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with new_file(path, "new", mode) as stream:
        stream.write(text.encode())


def own_command(words: Sequence[str]) -> list[str]:
    """Return what runs a function of ours without a user's environment: ``module:function``.

    `words` are that name and the arguments.
    """
    import site
    import sys

    root = str(Path(__file__).resolve().parents[2])
    known = root in {os.path.realpath(one) for one in site.getsitepackages()}
    module, _, function = words[0].partition(":")
    reach = "" if known else f"sys.path.insert(0, {root!r}); "
    code = f"import sys; {reach}from {module} import {function}; {function}()"
    return [sys.executable, "-I", "-c", code, *words[1:]]
