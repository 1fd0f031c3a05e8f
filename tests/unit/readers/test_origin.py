"""Host and time of a crash, from what lies beside the core."""

import os
from pathlib import Path

import pytest

from postmortem.readers.origin import Origin, read_origin

BOOT = "3f2a1b4c5d6e7f8091a2b3c4d5e6f708"


@pytest.mark.parametrize(
    ("name", "host", "time"),
    [
        (f"core.python.0.{BOOT}.4711.1700000000000000.zst", None, 1.7e9),
        (f"core.python.0.{BOOT}.99.1700000000000000.lz4", None, 1.7e9),  # a pid of the host
        ("core.python.4711.node17.1700000000", "node17", 1.7e9),
        ("core.python.4711.node17.cluster.example.1700000000.zst", "node17.cluster.example", 1.7e9),
        ("core-python-4711-1700000000", None, 1.7e9),
        ("core.4711.1700000000", None, 1.7e9),
        ("core.python.4711.node-17", "node-17", None),
        ("core.4711", None, None),
        ("core", None, None),
        ("core.python.99.node17.1700000000", None, None),  # of another process: then who knows
        ("core-python-4711-6", None, None),  # a signal or a user, no time
        ("core.4711.9999999999", None, None),
        ("core.4711.1.2.3.1700000000", None, 1.7e9),  # an address is no name
        (f"core.4711.{'a' * 300}\x1b[31m.1700000000", None, 1.7e9),
    ],
)
def test_names(tmp_path: Path, name: str, host: str | None, time: float | None) -> None:
    found = read_origin(str(tmp_path / name[:200]), 4711)
    if len(name) <= 200:
        assert (found.hostname, found.crashed_at) == (host, time)


def test_folder_of_abrt(tmp_path: Path) -> None:
    (tmp_path / "coredump").touch()
    (tmp_path / "hostname").write_text("node17.example\n")
    (tmp_path / "time").write_text("1700000000")
    assert read_origin(str(tmp_path / "coredump"), 1) == Origin("node17.example", 1.7e9)
    (tmp_path / "last_occurrence").write_text("1700000100")
    assert read_origin(str(tmp_path / "coredump"), 1).crashed_at == 1_700_000_100
    assert read_origin(str(tmp_path / "core"), 1) == Origin()


def test_files_that_are_no_facts(tmp_path: Path) -> None:
    (tmp_path / "hostname").mkdir()
    (tmp_path / "time").write_text("yesterday")
    assert read_origin(str(tmp_path / "coredump"), 1) == Origin()


def test_attributes_of_systemd_come_first(tmp_path: Path) -> None:
    path = tmp_path / "core.python.4711.other.1700000000"
    path.touch()
    try:
        os.setxattr(path, "user.coredump.hostname", b"node17")
        os.setxattr(path, "user.coredump.timestamp", b"1600000000000000")
        os.setxattr(path, "user.coredump.thread_name", b"pt_nccl_watchdg")
    except OSError:
        pytest.skip("no extended attributes on this file system")
    assert read_origin(str(path), 4711) == Origin("node17", 1.6e9, "pt_nccl_watchdg")
