"""The folder that evidence is put into while a command runs; gone afterwards, unless it failed."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

PARTS = ("box", "raises", "flight", "nccl", "gpu", "stacks", "numerics")
_PREFIX, _HELD = "postmortem-", "held"
"""A file that a run and all that it forks hold a lock on: it is free once none of them lives.

It has the boot of its host in it: on a shared file system, a lock of another host may not be seen.
"""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LEAST_FREE = 1 << 20
_LONGEST_SOCKET = 100
"""Characters of a path that fit into a socket's address (unix(7): 108 with the null)."""


class Scratch:
    """A private folder on whatever writable place there is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Renamed once it is locked: what bears the name and is free was held before.
        self._lock = os.open(path / f"{_HELD}.new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.write(self._lock, _BOOT.read_bytes())
            (path / f"{_HELD}.new").rename(path / _HELD)
        except OSError:
            pass  # a file system without locks: nobody clears it
        for part in PARTS:
            (path / part).mkdir()

    @property
    def socket(self) -> Path:
        """Where processes tell what happens to them."""
        return self.path / "socket"

    def remove(self) -> None:
        """Leave nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def make_scratch() -> tuple[Scratch | None, str | None]:
    """Return a folder, or None and why there is none: every place full, or not writable."""
    whys = []
    for place in _places():
        try:
            free = os.statvfs(place)
            if free.f_bavail * free.f_frsize < _LEAST_FREE:
                whys.append(f"{place} is full")
                continue
            _clear(Path(place))
            path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
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


def _clear(place: Path) -> None:
    """Remove the folders of our own runs that were killed with all their processes."""
    for path in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _unheld(path):
            if not _is_used(path):
                shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _unheld(path: Path) -> Iterator[None]:
    """Hold the lock of a folder whose run is gone; raises OSError for any other folder."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise NotADirectoryError(path)
    lock = os.open(path / _HELD, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.read(lock, 64) != _BOOT.read_bytes():
            raise FileNotFoundError(path)
        yield
    finally:
        os.close(lock)


def _is_used(path: Path) -> bool:
    """Return whether a process of the run outlived it, and may write there."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(path) in (process / "environ").read_bytes():
                return True
    return False


def _places() -> list[str]:
    wanted = [os.environ.get("TMPDIR"), "/tmp", "/dev/shm", os.environ.get("XDG_RUNTIME_DIR")]
    return list(dict.fromkeys(place for place in wanted if place and Path(place).is_dir()))
