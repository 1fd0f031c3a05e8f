"""Flight files: of processes that were killed, and hostile ones."""

import io
import json
import os
import random
import resource
import signal
import struct
import zlib
from pathlib import Path

import pytest

import postmortem
from builders.forks import run_together
from postmortem.diagnose.numerics.first_bad import Origin
from postmortem.diagnose.numerics.flight_verdict import find_first_bad, what_failed
from postmortem.errors import EvidenceError
from postmortem.facts import flight_format as layout
from postmortem.facts.confidence import Confidence
from postmortem.facts.frames import CellKind, Phase
from postmortem.monitor.flight import main
from postmortem.readers.flight import read_flight
from postmortem.report.frame_text import frame_text

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
PROGRAM = Path(__file__).parents[2] / "programs" / "watched_training.py"


ENDS = {"kill": -signal.SIGKILL, "segv": -signal.SIGSEGV, "done": 0}
BAD = "kill in batch 2"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, Path]]:
    """Exit statuses and flight files of trainings, each of which ends as it is told."""
    folder = tmp_path_factory.mktemp("trained")
    kinds = [*ENDS, BAD]
    calls = []
    for kind in kinds:
        (folder / kind).mkdir()
        words = ["kill", "2"] if kind == BAD else [kind]
        calls.append(([PROGRAM, f"{folder / kind}/", *words], {}))
    statuses = run_together(calls, folder)
    return {
        kind: (status, folder / kind / "rank0.flight")
        for kind, status in zip(kinds, statuses, strict=True)
    }


@pytest.mark.parametrize("end", ENDS)
def test_the_last_frames_outlive_the_process(
    trained: dict[str, tuple[int, Path]], end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, path = trained[end]
    assert status == ENDS[end]
    flight, problems = read_flight(path)
    assert problems == ()
    who = flight.recorder
    assert (who.rank, who.world_size, who.batch) == (0, 1, 3)
    assert who.ended == ("finished" if end == "done" else None)
    # Four batches: three modules and the model; four gradients each, the last ones too.
    assert len(flight.frames) == 4 * (4 + 4)
    assert [frame.number for frame in flight.frames] == list(range(1, 33))
    assert main([str(path), "--frames", "3"]) == 0
    assert find_first_bad(flight) is None
    assert frame_text(flight.frames[-1]) in capsys.readouterr().out


def test_the_first_bad_frame_of_a_killed_process(
    trained: dict[str, tuple[int, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    status, path = trained[BAD]
    assert status == -signal.SIGKILL
    assert main([str(path)]) == 1
    flight, _ = read_flight(path)
    found = find_first_bad(flight)
    assert found is not None
    assert (found.origin, found.module, found.cell) == (Origin.GRADIENT, "2", "bias")
    assert (found.batch, found.confidence) == (2, Confidence.LIKELY)  # of the weight, in batch 3
    assert found.sentence() in capsys.readouterr().out


def test_json(written: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written[0])
    assert main([path, path + ".gone", "--json", "--frames", "2"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["kind"]) == ("postmortem/1", "flight")
    assert [problem["where"] for problem in report["problems"]] == [path + ".gone"]
    (flight,) = report["flights"]
    bad = flight["first_bad"]
    assert (bad["origin"], bad["batch"]) == ("batch", 2)
    assert flight["ended"] == "finished"
    assert [frame["number"] for frame in flight["frames"]] == [6, 7]
    (cell,) = [c for c in flight["frames"][1]["cells"] if c["kind"] == "input"]
    assert (cell["nan_count"], cell["abs_max"]) == (6, None)
    assert main(["--json", path + ".gone"]) == 3


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, list[str]]:
    """A flight file, and the frames of the monitor that wrote it as text."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Softmax(-1))
    path = tmp_path / "a.flight"
    with postmortem.NumericsMonitor(
        model, flight=path, max_frames=100, out=io.StringIO(), on_bad="report"
    ) as monitor:
        model(torch.ones(2, 3))
        model(torch.empty(0, 3))
        monitor.model(torch.full((2, 3), float("nan")))
        frames = monitor.frames
    return path, frames


def test_a_file_says_what_the_monitor_says(written: tuple[Path, list[str]]) -> None:
    path, frames = written
    flight, problems = read_flight(path)
    assert problems == ()
    assert [frame_text(frame) for frame in flight.frames[:7]] == frames
    assert [frame.phase for frame in flight.frames[7:]] == [Phase.BATCH]
    assert len(frames) == 7  # nothing is looked at after the first bad frame
    found = find_first_bad(flight)
    assert found is not None
    assert (found.origin, found.module, found.batch) == (Origin.BATCH, "", 2)


def test_files_of_earlier_runs_are_kept(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    for batches in range(1, 6):
        with postmortem.NumericsMonitor(model, flight=tmp_path):
            for _ in range(batches):
                model(torch.ones(1, 2))
    kept = {p.name: len(read_flight(p)[0].frames) for p in tmp_path.iterdir()}
    assert kept == {
        "rank0.flight": 5,
        "rank0.flight.1": 4,
        "rank0.flight.2": 3,
        "rank0.flight.3": 2,
    }


def test_the_ring_keeps_the_last_records(tmp_path: Path) -> None:
    path = tmp_path / "a.flight"
    model = torch.nn.Linear(2, 2)
    with postmortem.NumericsMonitor(model, flight=path):
        for _ in range(5000):
            model(torch.ones(1, 2))
    flight, problems = read_flight(path)
    assert problems == ()
    assert flight.records == 4 * 5000
    assert flight.frames[-1].batch == 4999
    assert sum(len(frame.cells) for frame in flight.frames) == 16384


def test_a_folder_that_cannot_be_written_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    model = torch.nn.Linear(2, 2)
    with postmortem.NumericsMonitor(model, flight="/proc/nothing/here.flight") as monitor:
        model(torch.ones(1, 2))
    assert monitor.batch == 1
    assert [one.levelname for one in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("kind", ["a pipe", "a name that is too long"])
def test_what_is_no_file_is_left_alone(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Flight files of runs before are renamed: a device must not be."""
    path = tmp_path / ("pipe" if kind == "a pipe" else 300 * "a")
    if kind == "a pipe":
        os.mkfifo(path)
    before = sorted(tmp_path.iterdir())
    with postmortem.NumericsMonitor(torch.nn.Linear(2, 2), flight=path) as monitor:
        monitor.model(torch.ones(1, 2))
    assert monitor.batch == 1
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_system_that_is_full_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The space is taken when the file is made: a page that cannot be had later is SIGBUS."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with postmortem.NumericsMonitor(torch.nn.Linear(2, 2), flight=tmp_path) as monitor:
            monitor.model(torch.ones(1, 2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert monitor.batch == 1
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert list(tmp_path.iterdir()) == []


def test_a_child_of_fork_leaves_the_file_alone(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    path = tmp_path / "a.flight"
    with postmortem.NumericsMonitor(model, flight=path) as monitor:
        model(torch.ones(1, 2))
        before = path.read_bytes()
        child = os.fork()
        if not child:  # calls no kernel: OpenMP's threads do not survive a fork
            flight = monitor._records.flight
            assert flight is not None
            flight.begin_batch(7)
            monitor._remove("failed")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert path.read_bytes() == before


def test_a_run_that_was_stopped_says_so_where_nobody_detaches(tmp_path: Path) -> None:
    """As in a trainer, which passes the error on."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = tmp_path / "a.flight"
    monitor = postmortem.NumericsMonitor(model, flight=path, out=io.StringIO()).attach()
    (model(torch.ones(1, 2)).sum() * float("nan")).backward()
    with pytest.raises(postmortem.NumericsError):
        optimizer.step()
    flight, _ = read_flight(path)
    assert flight.recorder.ended == "stopped"
    found = what_failed(flight)
    assert found is not None
    assert found.origin is Origin.GRADIENT
    monitor.detach()
    assert read_flight(path)[0].recorder.ended == "stopped"


def test_records_are_little_endian_and_checked_by_zlib(written: tuple[Path, list[str]]) -> None:
    """By the documentation alone: docs/flight-file.md."""
    raw = written[0].read_bytes()
    assert raw[:8] == b"PMFLIGHT"
    version, header, record, capacity = struct.unpack_from("<4I", raw, 8)
    assert (version, header, record, capacity) == (1, 256, 128, 16384)
    names_at, names_bytes, records_at = struct.unpack_from("<QQQ", raw, 24)
    assert records_at == names_at + names_bytes
    first = raw[records_at : records_at + 124]
    assert struct.unpack_from("<Q", first)[0] == 1
    assert struct.unpack_from("<I", first, 120)[0] == zlib.crc32(first[:120])


@pytest.mark.parametrize("size", [0, 7, 100, 255])
def test_what_is_too_short_is_no_flight_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.flight"
    path.write_bytes((b"PMFLIGHT" + bytes(300))[:size])
    with pytest.raises(EvidenceError, match="flight file" if size else "is empty"):
        read_flight(path)
    assert main([str(path)]) == 3


def test_cut_torn_and_damaged_files(written: tuple[Path, list[str]], tmp_path: Path) -> None:
    path, frames = written
    raw = path.read_bytes()
    records_at = struct.unpack_from("<Q", raw, 40)[0]
    torn = bytearray(raw)
    torn[records_at + 128 * 3 + 50] ^= 1
    other = tmp_path / "b.flight"
    other.write_bytes(torn)
    flight, problems = read_flight(other)
    assert flight.unreadable_records == 1
    assert len(flight.frames) == len(frames) + 1
    assert [problem.where for problem in problems] == [f"{other}: the ring"]
    other.write_bytes(raw[: records_at + 128 * 2 + 60])
    flight, problems = read_flight(other)
    assert len(flight.frames) == 1
    assert problems[0].where == f"{other}: the ring"


def test_lying_counts_are_bounded(written: tuple[Path, list[str]], tmp_path: Path) -> None:
    raw = bytearray(written[0].read_bytes())
    other = tmp_path / "b.flight"
    for offset, value in ((20, 0xFFFFFFFF), (24, 2**64 - 1), (32, 2**64 - 1), (40, 2**64 - 1)):
        lying = bytearray(raw)
        struct.pack_into("<I" if offset == 20 else "<Q", lying, offset, value)
        other.write_bytes(lying)
        flight, problems = read_flight(other)
        assert f"{other}: the header" in [problem.where for problem in problems]
        assert len(flight.frames) <= 8


def test_any_damage_is_survived(written: tuple[Path, list[str]], tmp_path: Path) -> None:
    raw = written[0].read_bytes()
    records_at = struct.unpack_from("<Q", raw, 40)[0]
    other = tmp_path / "b.flight"
    dice = random.Random(1)
    for _ in range(200):
        damaged = bytearray(raw[: records_at + 128 * 40])
        for _ in range(dice.randrange(1, 30)):
            damaged[dice.choice((dice.randrange(300), dice.randrange(len(damaged))))] = (
                dice.randrange(256)
            )
        other.unlink(missing_ok=True)  # what is written over goes to the disk at once
        other.write_bytes(damaged)
        try:
            flight, _ = read_flight(other)
        except EvidenceError:
            continue
        assert main([str(other)]) in (0, 1)
        assert flight.records < 2**64
    assert layout.RECORD.size == 124


def test_gradients_stand_in_the_file_as_they_did(tmp_path: Path) -> None:
    """Clean ones are written by native code, others cell by cell."""
    model = torch.nn.Linear(3, 2)
    with postmortem.NumericsMonitor(model, flight=tmp_path / "a.flight") as monitor:
        (model(torch.full((1, 3), 2.0)).sum() * 3).backward()
        kept = list(monitor._records.backward)
    frames = [f for f in read_flight(tmp_path / "a.flight")[0].frames if f.phase is Phase.BACKWARD]
    assert [(f.number, f.batch, f.module, f.class_name) for f in frames] == [
        (f.number, f.batch, f.module, f.class_name) for f in kept
    ]
    read = {f.cells[0].name: f.cells[0] for f in frames}
    assert read["weight"].kind is CellKind.GRADIENT
    assert [(read[n].numbers.abs_max, read[n].numbers.numel) for n in ("weight", "bias")] == [
        (6.0, 6),
        (3.0, 2),
    ]
