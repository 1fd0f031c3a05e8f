"""Mapped files as they are now: there, shorter, gone, replaced, or on a dead server."""

import os
import threading
import time
from pathlib import Path

import pytest

from postmortem.readers.files import answer_within, answers_within, mapped_file


def test_file_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "shard-00017.bin"
    path.write_bytes(b"x" * 1000)
    fact = mapped_file(str(path), 8192, deleted=False)
    usage = os.statvfs(tmp_path)
    assert (fact.exists, fact.size, fact.offset, fact.deleted_then) == (True, 1000, 8192, False)
    assert fact.filesystem_size == usage.f_blocks * usage.f_frsize
    assert fact.filesystem_free is not None
    assert fact.filesystem_type


def test_file_that_is_gone_still_tells_of_its_file_system(tmp_path: Path) -> None:
    fact = mapped_file(str(tmp_path / "no" / "such" / "file"), 0, deleted=False)
    assert (fact.exists, fact.size) == (False, None)
    assert fact.filesystem_size


@pytest.mark.parametrize("suffix", ["", " (deleted)"])
def test_deleted_file_is_not_mistaken_for_its_successor(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "torch_4711"
    path.write_bytes(b"another file of that name")
    fact = mapped_file(str(path) + suffix, 0, deleted=not suffix)
    assert (fact.exists, fact.size, fact.deleted_then) == (False, None, True)
    assert fact.path == str(path) + suffix


def test_dev_shm_is_known_as_tmpfs() -> None:
    if not Path("/dev/shm").is_mount():
        pytest.skip("no /dev/shm here")
    assert mapped_file("/dev/shm/torch_1", 0, deleted=True).filesystem_type == "tmpfs"


def test_fifo_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert mapped_file(str(tmp_path / "fifo"), 0, deleted=False).exists


def test_path_out_of_a_crafted_core() -> None:
    assert not mapped_file("/a\0b", 0, deleted=False).exists
    assert not mapped_file("/" + "x" * 10_000, 0, deleted=False).exists
    assert not mapped_file("", 0, deleted=False).exists
    assert not mapped_file("/a\udcff", 0, deleted=False).exists


def test_a_call_that_hangs_is_given_up() -> None:
    never = threading.Event()
    start = time.monotonic()
    assert answer_within(0.05, never.wait) is None
    assert time.monotonic() - start < 60
    never.set()


def test_who_answers_is_told_though_another_hangs() -> None:
    never = threading.Event()
    start = time.monotonic()
    answers = answers_within(0.2, [never.wait, lambda: True, never.wait, lambda: True])
    assert answers == [None, True, None, True]
    assert time.monotonic() - start < 60
    never.set()
