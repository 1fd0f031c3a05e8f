"""Two processes with a real process group: they stop together, and name the same culprit."""

from pathlib import Path
from typing import Any

import pytest

from builders.forks import run_together
from builders.prose import Prose
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.diagnose.numerics.first_bad import FirstBad, Origin
from postmortem.diagnose.numerics.flight_verdict import find_first_bad
from postmortem.readers.flight import read_flight

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed"),
]
PROGRAM = Path(__file__).parents[2] / "programs" / "watched_ranks.py"


CASES = [(kind, bad_rank) for kind in ("ddp", "accumulate", "fsdp") for bad_rank in (0, 1)]
HEALTHY = [("ddp", -1), ("join", -1)]
SUMMED = ("fsdp_backward", 1)
SHARD = [("fsdp_weight", 0), ("fsdp_weight", 1)]
LOSS = [(kind, bad_rank) for kind in ("fsdp_loss", "fsdp_later") for bad_rank in (0, 1)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which two ranks left what they have to say of all trainings."""
    folder = tmp_path_factory.mktemp("ranks")
    cases = [f"{kind}:{bad_rank}" for kind, bad_rank in [*CASES, *HEALTHY, SUMMED, *LOSS, *SHARD]]
    group = {"WORLD_SIZE": "2", "STORE": str(folder / "store")}
    calls = [([PROGRAM, folder, *cases], group | {"RANK": str(rank)}) for rank in range(2)]
    assert run_together(calls, folder) == [0, 0]
    return folder


@pytest.mark.parametrize(("kind", "bad_rank"), CASES)
def test_all_ranks_stop_with_the_same_culprit(trained: Path, kind: str, bad_rank: int) -> None:
    # The evaluation of rank 0 alone is a batch of its own there.
    batch = 3 if bad_rank == 0 and kind != "fsdp" else 2
    want = f"RAISED rank={bad_rank} module=second batch={batch} between"
    for rank in range(2):
        said = (trained / f"{kind}-{bad_rank}-{rank}.txt").read_text()
        assert want in said
        assert ("Detected inf/nan" in said) == (rank == bad_rank)
        assert (f" with rank {bad_rank}" in said) == (rank != bad_rank)
        assert f"of rank {bad_rank}\n" in said
        flight, _ = read_flight(trained / f"{kind}-{bad_rank}" / f"rank{rank}.flight")
        assert (flight.recorder.rank, flight.recorder.world_size) == (rank, 2)
        assert flight.recorder.ended == "stopped"
        found = find_first_bad(flight)
        assert (found is not None) == (rank == bad_rank)


@pytest.mark.parametrize(("kind", "bad_rank"), HEALTHY)
def test_nothing_is_raised_where_nothing_is_bad(trained: Path, kind: str, bad_rank: int) -> None:
    """Ranks that join with uneven inputs shadow the collectives of DDP, and no others."""
    said = [(trained / f"{kind}-{bad_rank}-{rank}.txt").read_text() for rank in range(2)]
    assert said == ["FINE\n", "FINE\n"]


def test_no_rank_is_blamed_for_a_gradient_that_all_have_summed(trained: Path, prose: Prose) -> None:
    kind, bad_rank = SUMMED
    for rank in range(2):
        said = (trained / f"{kind}-{bad_rank}-{rank}.txt").read_text()
        assert "RAISED rank=0 module=first batch=2 gradient" in said
    folder = trained / f"{kind}-{bad_rank}"
    body: Any = analyse([str(folder)], RankLogOptions()).body
    assert body["first_failure"]["ranks"] == [0, 1]
    flight, _ = read_flight(folder / "rank0.flight")
    found = find_first_bad(flight)
    assert found is not None
    assert found.summed
    prose(found.sentence(2), *found.hints)


@pytest.mark.parametrize(("kind", "bad_rank"), LOSS)
def test_the_rank_whose_loss_was_bad_is_told_before_the_sum(
    trained: Path, kind: str, bad_rank: int, prose: Prose
) -> None:
    for rank in range(2):
        said = (trained / f"{kind}-{bad_rank}-{rank}.txt").read_text()
        batch = 2 if kind == "fsdp_loss" else 3  # in which it came out of the sum
        assert f"RAISED rank={bad_rank} module= batch={batch} gradient" in said
    folder = trained / f"{kind}-{bad_rank}"
    body: Any = analyse([str(folder)], RankLogOptions()).body
    assert body["first_failure"]["ranks"] == [bad_rank]
    found = find_first_bad(read_flight(folder / f"rank{bad_rank}.flight")[0])
    assert found is not None
    assert (found.cell, found.summed, found.rank) == ("output", False, bad_rank)
    prose(found.sentence(), *found.hints)


@pytest.mark.parametrize(("kind", "bad_rank"), SHARD)
def test_the_rank_with_a_bad_shard_stands_before_those_that_saw_the_output(
    trained: Path, kind: str, bad_rank: int
) -> None:
    for rank in range(2):
        said = (trained / f"{kind}-{bad_rank}-{rank}.txt").read_text()
        assert f"RAISED rank={bad_rank} module=first batch=2 weight" in said
    body: Any = analyse([str(trained / f"{kind}-{bad_rank}")], RankLogOptions()).body
    assert body["first_failure"]["ranks"] == [bad_rank]
    bad = next(one["first_bad"] for one in body["flights"] if one["rank"] == bad_rank)
    assert (bad["origin"], bad["module"], bad["class_name"]) == ("weight", "first", "FSDPLinear")


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
