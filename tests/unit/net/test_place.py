"""Which node this is, by options and by the variables of launchers."""

import pytest

from postmortem.net.place import Unplaced, find_place, split_place

TORCHRUN = {
    "RANK": "9",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "16",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "h0",
    "MASTER_PORT": "29400",
    "TORCHELASTIC_RUN_ID": "run-7",
}
SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_NODEID": "3",
    "SLURM_NNODES": "4",
    "SLURM_JOB_ID": "815",
    "SLURM_STEP_ID": "2",
    "SLURM_JOB_NODELIST": "node[003-005,9],login1",
}


def test_alone() -> None:
    assert find_place(None, None, None, None, {}) is None


def test_torchrun() -> None:
    found = find_place(None, None, None, None, TORCHRUN)
    assert found is not None
    assert (found.number, found.world, found.host, found.port) == (1, 2, "h0", 29_401)
    assert not found.takes_part
    first = find_place(None, None, None, None, {**TORCHRUN, "LOCAL_RANK": "0"})
    assert first is not None
    assert first.takes_part


def test_slurm() -> None:
    found = find_place(None, None, None, None, SLURM)
    assert found is not None
    assert (found.number, found.world, found.host, found.port) == (3, 4, "node003", 29_500)
    assert found.takes_part
    assert "815.2" in found.token


def test_options_come_first() -> None:
    found = find_place(0, 2, "h7:6000", "word", SLURM)
    assert found is not None
    assert (found.number, found.world, found.host, found.port) == (0, 2, "h7", 6000)
    assert found.token == "word"


@pytest.mark.parametrize(
    ("number", "world", "master", "token"),
    [
        (0, None, None, None),
        (None, None, "h0", None),
        (None, 2, "h0", "x"),
        (2, 2, "h0", "x"),
        (0, 2, None, "x"),
        (0, 2, "h0", None),
    ],
)
def test_what_is_missing(
    number: int | None, world: int | None, master: str | None, token: str | None
) -> None:
    with pytest.raises(Unplaced):
        find_place(number, world, master, token, {})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("h", ("h", None)),
        ("h:1", ("h", 1)),
        ("[::1]:29500", ("::1", 29_500)),
        ("::1", ("::1", None)),
        ("[fd00::2]", ("fd00::2", None)),
    ],
)
def test_places(text: str, found: tuple[str, int | None]) -> None:
    assert split_place(text) == found


@pytest.mark.parametrize("text", ["", ":1", "h:", "h:x", "h:0", "h:65536", "a b:1", "-h:1"])
def test_no_places(text: str) -> None:
    with pytest.raises(ValueError, match=r"^.+$"):
        split_place(text)
