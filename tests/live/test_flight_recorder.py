"""Dumps that PyTorch itself writes, of real processes that part ways."""

import shutil
import socket
from pathlib import Path

import pytest

from builders.forks import run_together
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.diagnose.jam.decide import find_jam
from postmortem.diagnose.jam.jam import CalledOther, CameLate, Differs, Jam, NeverCame, Sign
from postmortem.readers.flight_recorder import looks_like_recorder, read_recorder

pytest.importorskip("torch.distributed")

PROGRAM = Path(__file__).parents[1] / "programs" / "recorded_ranks.py"
WORLD = 4
_PATIENCE = 280.0
pytestmark = pytest.mark.timeout(300)  # two dozen processes with PyTorch, on two cores or fewer
KINDS = ("usual", "operation", "size", "behind", "pair", "late")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which each kind of job left its dumps; they run at once, as most is waiting."""
    folder = tmp_path_factory.mktemp("recorded")
    calls = []
    for kind in KINDS:
        (folder / kind).mkdir()
        port = free_port()
        for rank in range(WORLD):
            argv = [PROGRAM, rank, WORLD, kind, folder / kind, port]
            calls.append((argv, {"TORCH_FR_BUFFER_SIZE": "100"}))
    if 77 in run_together(calls, folder, seconds=_PATIENCE):
        pytest.skip("this PyTorch has no flight recorder for gloo")
    return folder


def jam_of(folder: Path, form: str) -> Jam | None:
    files = sorted(folder.glob(f"{form}_*"))
    assert len(files) >= WORLD - 1  # a rank that receives too much is ended by gloo
    assert all(looks_like_recorder(file.read_bytes()) for file in files)
    return find_jam([read_recorder(file.read_bytes(), str(file)) for file in files])


@pytest.mark.parametrize("form", ["fr", "json"])
@pytest.mark.parametrize(
    ("kind", "culprit", "cause"),
    [
        ("operation", 1, CalledOther),
        ("size", 1, CalledOther),
        ("behind", 2, NeverCame),
        ("pair", 3, NeverCame),
        ("late", 1, CameLate),
    ],
)
def test_who_holds_up_the_others(
    dumps: Path, kind: str, culprit: int, cause: type, form: str
) -> None:
    jam = jam_of(dumps / kind, form)
    assert jam is not None
    assert [(one.rank, type(one.cause)) for one in jam.culprits] == [(culprit, cause)]
    assert jam.sign is Sign.SEEN
    assert jam.explained == jam.waiting > 0
    found = jam.culprits[0].cause
    if isinstance(found, CalledOther):
        assert found.differs is (Differs.SIZES if kind == "size" else Differs.OPERATION)
        if form == "fr" and kind == "operation":
            assert found.call.site is not None
            assert found.call.site.function == "different_path"


def test_of_a_job_that_ran_to_its_end_nothing_is_said(dumps: Path) -> None:
    assert jam_of(dumps / "usual", "fr") is None


def test_another_size_in_all_gather_is_a_failure(dumps: Path, tmp_path: Path) -> None:
    for file in (dumps / "size").glob("fr_*"):
        shutil.copy2(file, tmp_path / file.name)
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.failed
    assert report.diagnoses[0].id == "recorded_mismatch"
    first = report.body["first_failure"]
    assert isinstance(first, dict)
    assert (first["ranks"], first["confidence"]) == ([1], "certain")
