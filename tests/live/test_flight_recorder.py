"""Dumps that PyTorch itself writes, of real processes that part ways."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from builders.forks import run_together
from postmortem.diagnose.ranks.deciding.recorder import Differs, compare
from postmortem.readers.flight_recorder import looks_like_recorder, read_recorder

pytest.importorskip("torch.distributed")

PROGRAM = Path(__file__).parents[1] / "programs" / "recorded_ranks.py"
WORLD = 3


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which each kind of job left its dumps; they run at once, as most is waiting."""
    folder = tmp_path_factory.mktemp("recorded")
    calls = []
    for kind in ("operation", "behind"):
        (folder / kind).mkdir()
        port = free_port()
        for rank in range(WORLD):
            argv = [PROGRAM, rank, WORLD, kind, folder / kind, port]
            calls.append((argv, {"TORCH_FR_BUFFER_SIZE": "100"}))
    if 77 in run_together(calls, folder):
        pytest.skip("this PyTorch has no flight recorder for gloo")
    return folder


@pytest.mark.parametrize(
    ("kind", "how", "odd", "most"),
    [("operation", Differs.OPERATION, (1,), (0, 2)), ("behind", Differs.BEHIND, (2,), (0, 1))],
)
def test_where_ranks_part(
    dumps: Path, kind: str, how: Differs, odd: tuple[int, ...], most: tuple[int, ...]
) -> None:
    for form in ("fr", "json"):
        files = sorted((dumps / kind).glob(f"{form}_*"))
        if form == "json" and not files:
            continue
        assert len(files) == WORLD
        assert all(looks_like_recorder(file.read_bytes()) for file in files)
        found = compare([read_recorder(file.read_bytes(), str(file)) for file in files])
        assert found is not None
        assert (found.how, found.odd, found.most) == (how, odd, most)
        call = found.call(odd[0])
        if form == "fr" and kind == "operation":
            assert call is not None
            assert call.site is not None
            assert call.site.function == "different_path"
