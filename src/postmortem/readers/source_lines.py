"""Lines of source around a place, from the file on this machine.

Evidence names the file, and may name any: only what is called like source is opened, and no more
of it is read than a screen needs.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from postmortem.errors import EvidenceError
from postmortem.readers.regular import open_regular

AROUND = 2
_MOST_BYTES = 4 << 20
_LONGEST = 300
_SOURCE = (
    ".py", ".pyx", ".pxd", ".pxi", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inc",
    ".ipp", ".tpp", ".cu", ".cuh", ".hip", ".rs", ".f90", ".f", ".go",
)  # fmt: skip

Lines = tuple[tuple[int, str], ...]


def find_source(name: str, folders: Iterable[str] = ()) -> str | None:
    """Return the path of a source file here: as it is named, else in one of the folders."""
    if not name.lower().endswith(_SOURCE) or "\0" in name:
        return None
    bases = [Path(folder) for folder in folders]
    paths = [Path(name)] if name.startswith("/") else [b / name for b in bases if b.is_absolute()]
    return next((str(path) for path in paths if _is_file(path)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that may not be searched
        return False


def read_lines(path: str, line: int, *, around: int = AROUND) -> tuple[Lines, float] | None:
    """Return the lines around one, with their numbers, and when the file was last changed.

    None where there is no such line, or the file cannot be read.
    """
    # A link that is called like source may lead to what nobody would show: a key, /etc/shadow.
    if not os.path.realpath(path).lower().endswith(_SOURCE):
        return None
    try:
        with open_regular(path) as stream:
            changed = os.fstat(stream.fileno()).st_mtime
            data = stream.read(_MOST_BYTES)
    except (OSError, EvidenceError):
        return None
    rows = data.split(b"\n")
    if not 0 < line <= len(rows) or b"\0" in data[:4096]:
        return None
    first = max(line - around, 1)
    shown = rows[first - 1 : line + around]
    if first + len(shown) > len(rows) and shown and not shown[-1]:  # behind the last line break
        shown.pop()
    told = (row.decode("utf-8", "replace").rstrip("\r")[:_LONGEST] for row in shown)
    return tuple(enumerate(told, start=first)), changed
