"""The folder of the cores that were taken: how old and how large it may get."""

import contextlib
import os
import stat
import time
from pathlib import Path

from postmortem.patterns import Pattern

_OURS = Pattern(r"^core\.[A-Za-z0-9._+-]+\.\d+\.\d+\.(slim(\.zst|\.gz)?|txt)$")
_LEFT_OVER = Pattern(r"^\.core\..*\.(partial|spool|packed)$")
_LEFT_OVER_SECONDS = 3600.0


def make_room(folder: Path, most_bytes: int, most_days: float) -> list[str]:
    """Remove what is too old, and the oldest of what is too much; the newest core stays.

    Only files that a handler has made are touched. Returns their names.
    """
    now = time.time()
    rows: list[tuple[float, int, str]] = []
    gone: list[str] = []
    for entry in os.scandir(folder):
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            continue
        age = now - status.st_mtime
        left_over = _LEFT_OVER.search(entry.name) and age > _LEFT_OVER_SECONDS
        if left_over or (_OURS.search(entry.name) and age > most_days * 86400):
            gone.append(entry.name)
        elif _OURS.search(entry.name):
            rows.append((status.st_mtime, status.st_size, entry.name))
    rows.sort(reverse=True)
    total = 0
    for place, (_, used, name) in enumerate(rows):
        total += used
        if total > most_bytes and place > 1:  # a core and its verdict
            gone.append(name)
    for name in gone:
        with contextlib.suppress(OSError):
            (folder / name).unlink()
    return gone
