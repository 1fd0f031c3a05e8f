"""Two processes with a real process group: they stop together, and name the same culprit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import postmortem
from postmortem.facts.first_bad import FirstBad, Origin, find_first_bad
from postmortem.readers.flight import read_flight

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed"),
]
PROGRAM = Path(__file__).parents[2] / "programs" / "watched_ranks.py"


def run(tmp_path: Path, kind: str, bad_rank: int, size: int = 2) -> list[str]:
    """What each rank prints; fails if one of them hangs."""
    source = Path(postmortem.__file__).parents[1]
    environment = os.environ | {
        "PYTHONPATH": str(source),
        "WORLD_SIZE": str(size),
        "STORE": str(tmp_path / "store"),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-W", "ignore", str(PROGRAM), kind, str(bad_rank), f"{tmp_path}/"]
    ranks = [
        subprocess.Popen(
            command, env=environment | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(size)
    ]
    try:
        outputs = [rank.communicate(timeout=100)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * size, outputs
    return outputs


@pytest.mark.parametrize("kind", ["ddp", "accumulate", "fsdp"])
@pytest.mark.parametrize("bad_rank", [0, 1])
def test_all_ranks_stop_with_the_same_culprit(tmp_path: Path, kind: str, bad_rank: int) -> None:
    outputs = run(tmp_path, kind, bad_rank)
    # The evaluation of rank 0 alone is a batch of its own there.
    batch = 3 if bad_rank == 0 and kind != "fsdp" else 2
    want = f"RAISED rank={bad_rank} module=second batch={batch} between"
    for rank, output in enumerate(outputs):
        assert want in output
        assert ("Detected inf/nan during batch_number" in output) == (rank == bad_rank)
        assert (f"rank {rank} stops with rank {bad_rank}" in output) == (rank != bad_rank)
        assert f"of rank {bad_rank}\n" in output
        flight, _ = read_flight(tmp_path / f"rank{rank}.flight")
        assert (flight.recorder.rank, flight.recorder.world_size) == (rank, 2)
        assert flight.recorder.ended == "stopped"
        found = find_first_bad(flight)
        assert (found is not None) == (rank == bad_rank)


def test_nothing_is_raised_where_nothing_is_bad(tmp_path: Path) -> None:
    assert all("FINE" in output for output in run(tmp_path, "ddp", -1))


def test_the_first_of_several_ranks_is_the_one_whose_frame_was_first() -> None:
    from postmortem.monitor.ranks import Ranks

    def key(order: int) -> int:
        ranks = Ranks()
        ranks.pending = FirstBad(
            Origin.PRODUCER, "m", "M", "output", 0, 1, 1, 0, 1, 0, "float32", "likely"
        )
        ranks.order = order
        return ranks._key()

    keys = [key(-5), key(3), key(7), key(1 << 50), Ranks()._key()]
    assert keys == sorted(keys)
    assert len(set(keys)) == 5
    assert keys[-1] == 2**63 - 1
