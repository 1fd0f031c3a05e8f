"""The folder of a handler's cores: what is removed, and what never is."""

import os
import time
from pathlib import Path

import pytest

from postmortem.errors import EvidenceError
from postmortem.handler.server import require_kernel
from postmortem.handler.store import make_room

DAY = 86400


def put(folder: Path, name: str, size: int = 10, days: float = 0) -> None:
    path = folder / name
    path.write_bytes(bytes(size))
    when = time.time() - days * DAY
    os.utime(path, (when, when))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    put(tmp_path, "core.python.1.100.slim.zst", days=31)
    put(tmp_path, "core.python.1.100.txt", days=31)
    put(tmp_path, "core.python.2.200.slim.gz", days=29)
    assert len(make_room(tmp_path, 1 << 30, 30)) == 2
    assert names(tmp_path) == {"core.python.2.200.slim.gz"}


def test_the_oldest_of_too_much_go_and_the_newest_stay(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path, f"core.a.{number}.1.slim", size=100, days=5 - number)
    make_room(tmp_path, 250, 30)
    assert names(tmp_path) == {"core.a.4.1.slim", "core.a.3.1.slim"}
    make_room(tmp_path, 1, 30)
    assert "core.a.4.1.slim" in names(tmp_path)


def test_what_is_not_ours_is_never_touched(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    (tmp_path / "core.x.1.1.slim").symlink_to(target)
    for name in ("core", "core.4711", "notes.txt", "core.a b.1.1.slim", ".slot-0"):
        put(tmp_path, name, size=1000, days=400)
    assert make_room(tmp_path, 1, 1) == []


def test_what_a_killed_handler_left_goes_after_an_hour(tmp_path: Path) -> None:
    put(tmp_path, ".core.a.1.1.slim.zst.77.spool", days=0.1)
    put(tmp_path, ".core.a.2.1.slim.zst.78.partial")
    make_room(tmp_path, 1, 1)
    assert names(tmp_path) == {".core.a.2.1.slim.zst.78.partial"}


@pytest.mark.parametrize("release", ["6.16.9", "5.15.0-91-generic", "6.8.0-45-generic", "odd"])
def test_an_older_kernel_would_make_a_file_of_the_socket(release: str) -> None:
    with pytest.raises(EvidenceError, match=r"Linux 6\.17"):
        require_kernel(release)


@pytest.mark.parametrize("release", ["6.17", "6.18.44-x", "7.0.0-rc1"])
def test_a_newer_kernel_has_it(release: str) -> None:
    require_kernel(release)
