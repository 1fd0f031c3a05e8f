"""The ring file: whole, gone round, torn, hostile."""

import os
import random
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.facts.watch import Sample
from postmortem.facts.watch_format import HEADER_BYTES, RECORD_BYTES, pack, unpack
from postmortem.readers.watch_ring import read_watch_ring
from postmortem.watch.ring import Ring


def sample(at: float, held: int) -> Sample:
    return Sample(at, held + 5, held, 5, 7, 0, 0, -1, 12, 3)


def written(path: Path, looks: int, size: int = 1 << 20, *, end: bool = True) -> Path:
    ring = Ring(str(path), size, 0.5)
    turn = -1
    for number in range(looks):
        if ring.turn() != turn:
            turn = ring.turn()
            ring.name(100.0 + number, 42, 3, "python train.py \N{SNOWMAN}")
            ring.name(100.0 + number, (1 << 31) + 1, None, "memory.max of the cgroup /a")
        ring.sample(42, sample(100.0 + number, 1000 * number))
        ring.ceiling(100.0 + number, 1, 1 << 30, number)
    if end:
        ring.close()
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    seen, ended, problems = read_watch_ring(written(tmp_path / "r", 100))
    assert ended
    assert not problems
    one = seen.processes[0]
    assert (one.pid, one.rank, one.command) == (42, 3, "python train.py \N{SNOWMAN}")
    assert one.samples == tuple(sample(100.0 + n, 1000 * n) for n in range(100))
    assert seen.ceilings[0].name == "memory.max of the cgroup /a"
    assert seen.ceilings[0].used[-1] == (199.0, 99)
    assert seen.interval_seconds == 0.5


def test_a_ring_that_has_gone_round_keeps_the_newest(tmp_path: Path) -> None:
    path = written(tmp_path / "r", 1000, HEADER_BYTES + 128 * RECORD_BYTES, end=False)
    assert path.stat().st_size == HEADER_BYTES + 128 * RECORD_BYTES
    seen, ended, _ = read_watch_ring(path)
    assert not ended
    one = seen.processes[0]
    assert one.command.startswith("python train.py")
    assert one.samples[-1] == sample(1099.0, 999_000)
    assert 55 <= len(one.samples) <= 64


def test_a_torn_record_is_left_out_and_told(tmp_path: Path, prose: Prose) -> None:
    path = written(tmp_path / "r", 20)
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 5 * RECORD_BYTES + 60] ^= 1
    path.write_bytes(data)
    seen, _, problems = read_watch_ring(path)
    prose(*[one.what for one in problems])
    assert len(seen.processes[0].samples) + len(seen.ceilings[0].used) == 39


@pytest.mark.parametrize("text", [b"", b"PMWATCH1", b"x" * 5000, b"PMWATCH1" + b"\xff" * 5000])
def test_what_is_no_ring_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "r"
    path.write_bytes(text)
    with pytest.raises(EvidenceError):
        read_watch_ring(path)


def test_any_bytes_are_read_to_something(tmp_path: Path) -> None:
    whole = written(tmp_path / "r", 40).read_bytes()[: HEADER_BYTES + 90 * RECORD_BYTES]
    chance = random.Random(7)
    for _ in range(200):
        data = bytearray(whole[: chance.randrange(len(whole))])
        for _ in range(chance.randrange(20)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        path = tmp_path / "m"
        path.write_bytes(data)
        try:
            seen, _, _ = read_watch_ring(path)
        except EvidenceError:
            continue
        assert all(one.samples for one in seen.processes)


def test_long_names_are_cut() -> None:
    row = unpack(pack(2, 9, 1.0, 7, (), "- " + "\N{SNOWMAN}" * 90))
    assert row is not None
    assert row[5].startswith("- \N{SNOWMAN}")


def test_a_pipe_is_refused_and_what_was_never_written_costs_little(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EvidenceError, match="a pipe"):
        read_watch_ring(tmp_path / "pipe")
    path = written(tmp_path / "r", 20)
    os.truncate(path, 1 << 30)
    seen, _, problems = read_watch_ring(path)
    assert len(seen.processes) == 1
    assert problems == ()
