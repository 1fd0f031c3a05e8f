"""The folder that evidence is put into while a command runs; gone afterwards, unless it failed."""

import os
import shutil
import tempfile
from pathlib import Path

PARTS = ("box", "raises", "flight", "nccl", "gpu", "stacks", "numerics")
_LEAST_FREE = 1 << 20
_LONGEST_SOCKET = 100
"""Characters of a path that fit into a socket's address (unix(7): 108 with the null)."""


class Scratch:
    """A private folder on whatever writable place there is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for part in PARTS:
            (path / part).mkdir()

    @property
    def socket(self) -> Path:
        """Where processes tell what happens to them."""
        return self.path / "socket"

    def remove(self) -> None:
        """Leave nothing."""
        shutil.rmtree(self.path, ignore_errors=True)


def make_scratch() -> tuple[Scratch | None, str | None]:
    """Return a folder, or None and why there is none: every place full, or not writable."""
    whys = []
    for place in _places():
        try:
            free = os.statvfs(place)
            if free.f_bavail * free.f_frsize < _LEAST_FREE:
                whys.append(f"{place} is full")
                continue
            path = Path(tempfile.mkdtemp(prefix="postmortem-", dir=place))
        except OSError as error:
            whys.append(f"{place}: {error.strerror}")
            continue
        if len(str(path)) > _LONGEST_SOCKET - len("/socket"):
            path.rmdir()
            whys.append(f"{place} has too long a name for a socket")
            continue
        try:
            return Scratch(path), None
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            whys.append(f"{place}: {error.strerror}")
    return None, "; ".join(whys)


def _places() -> list[str]:
    wanted = [os.environ.get("TMPDIR"), "/tmp", "/dev/shm", os.environ.get("XDG_RUNTIME_DIR")]
    return list(dict.fromkeys(place for place in wanted if place and Path(place).is_dir()))
