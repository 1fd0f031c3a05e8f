"""Snapshots of PyTorch's GPU memory: read without unpickling, and what is concluded of them."""

import json
import os
import pickle
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from builders.memory_snapshots import MIB, Device, snapshot, stack, write
from builders.schema import validate
from postmortem.analyses.gpu_memory import analyse
from postmortem.errors import EvidenceError
from postmortem.facts.gpu_memory import MemorySnapshot, Owner
from postmortem.readers.inventory import Kind, take_inventory
from postmortem.readers.memory_snapshot import is_snapshot, read_snapshot
from postmortem.render.json import render
from postmortem.report.model import Confidence, Outcome, Report, Role

FORWARD = stack(("forward", 31), ("train", 9))
LOSSES = stack(("keep", 44), ("train", 10))
WEIGHTS = stack(("build", 3))


def trained(
    steps: int = 20, *, weights: int = 40, leak: bool = False, total: int = 8192, **options: bool
) -> Device:
    """Weights, then steps that allocate and free 100 MiB each, and may keep 4 MiB."""
    device = Device(total * MIB, **options)
    for _ in range(weights):
        device.alloc(4 * MIB, WEIGHTS, asked=4 * MIB - 512)
    for _ in range(steps):
        block = device.alloc(100 * MIB, FORWARD)
        if leak:
            device.alloc(4 * MIB, LOSSES)
        device.free(block)
    return device


def owners(rows: tuple[Owner, ...]) -> dict[str | None, int]:
    return {None if one.place is None else one.place.function: one.bytes for one in rows}


def report(*paths: Path) -> tuple[Report, dict[str, Any]]:
    found = analyse([str(path) for path in paths])
    text = StringIO()
    render(found, text)
    document = json.loads(text.getvalue())
    validate(document)
    return found, document


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_sums_peak_and_owners(tmp_path: Path, protocol: int) -> None:
    path = write(tmp_path / "snapshot_rank3.pickle", trained(), protocol=protocol)
    assert is_snapshot(str(path))
    found = read_snapshot(str(path))
    assert found.rank == 3
    (one,) = found.devices
    assert one.reserved_bytes == 8192 * MIB
    assert one.allocated_bytes == 40 * (4 * MIB - 512)
    assert one.rounding_bytes == 40 * 512
    assert one.free_bytes == 8192 * MIB - 160 * MIB
    assert owners(one.owners) == {"build": one.allocated_bytes}
    assert one.peak is not None
    assert one.peak.bytes == one.allocated_bytes + 100 * MIB
    assert owners(one.peak.owners) == {"build": one.allocated_bytes, "forward": 100 * MIB}


def test_what_was_there_before_the_recording(tmp_path: Path) -> None:
    device = Device(1024 * MIB, recorded=False)
    early = device.alloc(300 * MIB, WEIGHTS)
    device.alloc(20 * MIB, WEIGHTS)
    device.recorded = True
    block = device.alloc(50 * MIB, FORWARD)
    device.free(early)
    device.free(block)
    (one,) = read_snapshot(str(write(tmp_path / "s.pickle", device))).devices
    assert one.peak is not None
    assert one.peak.bytes == 370 * MIB
    assert owners(one.peak.owners) == {None: 320 * MIB, "forward": 50 * MIB}


def test_the_sums_are_those_of_pytorch(tmp_path: Path) -> None:
    viz = pytest.importorskip("torch.cuda._memory_viz")
    device = trained(leak=True)
    (one,) = read_snapshot(str(write(tmp_path / "s.pickle", device))).devices
    text = viz.segsum(snapshot(device))
    said = dict(re.findall(r"^(total_\w+|segments): (.*)$", text, re.MULTILINE))
    assert said["segments"] == str(one.segments)
    for name, value in (
        ("total_reserved", one.reserved_bytes),
        ("total_allocated", one.allocated_bytes),
        ("total_free", one.free_bytes + one.rounding_bytes),
    ):
        assert said[name].split(" (")[0] == str(viz.Bytes(value))
    entries = re.search(r"^(\d+) entries$", viz.trace(snapshot(device)), re.MULTILINE)
    assert entries is not None
    assert int(entries[1]) == one.events


def failing(*, expandable: bool = False, later: int = 0, fragmented: bool = False) -> Device:
    device = trained(total=4200, expandable=expandable)
    if fragmented:  # each other block of a row is free
        row = [device.alloc(64 * MIB, FORWARD) for _ in range(30)]
        for address in row[::2]:
            device.free(address)
        device.total = sum(one["size"] for one in device.blocks.values())
    else:
        device.total = sum(one["size"] for one in device.blocks.values()) + 8 * MIB
        for address, one in device.blocks.items():
            if one["state"] == "inactive":
                one["state"] = "active_allocated"
                device._note("alloc", address, one["size"], FORWARD)
    device.fail(512 * MIB, 8 * MIB, FORWARD)
    for _ in range(later):
        device.free(device.alloc(0, FORWARD))
    return device


def test_a_request_that_failed(tmp_path: Path) -> None:
    found, document = report(write(tmp_path / "rank1.pickle", failing()))
    (best,) = found.diagnoses
    assert (best.id, best.role, best.confidence) == (
        "gpu_memory_ran_out",
        Role.ROOT,
        Confidence.CERTAIN,
    )
    assert found.failed
    assert "forward (train.py:31)" in found.verdict
    assert "fragmented" not in best.cause
    (row,) = document["snapshots"][0]["devices"][0]["failures"]
    assert (row["bytes"], row["free_bytes"], row["line"]) == (512 * MIB, 8 * MIB, 31)


def test_enough_is_free_in_small_holes(tmp_path: Path) -> None:
    found, _ = report(write(tmp_path / "rank1.pickle", failing(fragmented=True)))
    assert "fragmented" in found.diagnoses[0].cause
    assert "expandable_segments" in found.diagnoses[0].next_steps[0]
    found, _ = report(write(tmp_path / "r.pickle", failing(fragmented=True, expandable=True)))
    assert "fragmented" not in found.diagnoses[0].cause


def test_a_request_that_failed_and_was_caught(tmp_path: Path) -> None:
    found, document = report(write(tmp_path / "rank1.pickle", failing(later=40)))
    assert [(one.id, one.role) for one in found.diagnoses] == [("gpu_memory_ran_out", Role.CONTEXT)]
    assert not found.failed
    assert document["outcome"] == Outcome.UNKNOWN


def test_what_is_never_freed(tmp_path: Path) -> None:
    found, _ = report(write(tmp_path / "s.pickle", trained(60, leak=True)))
    (best,) = found.diagnoses
    assert (best.id, best.confidence) == ("gpu_memory_never_freed", Confidence.POSSIBLE)
    assert "keep (train.py:44)" in best.title
    assert not found.failed


def test_weights_are_no_leak(tmp_path: Path) -> None:
    found, _ = report(write(tmp_path / "s.pickle", trained(60)))
    assert found.diagnoses == ()


def test_one_rank_with_more(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"rank{rank}.pickle", trained()) for rank in range(3)]
    found, _ = report(*paths)
    assert found.diagnoses == ()
    more = trained()
    more.alloc(900 * MIB, stack(("load", 77)))
    write(tmp_path / "rank0.pickle", more)
    found, _ = report(*paths)
    (best,) = found.diagnoses
    assert best.id == "rank_holds_more"
    assert best.about is not None
    assert best.about.rank == 0
    assert "load (train.py:77)" in best.cause
    found, _ = report(*paths[:2])
    assert found.diagnoses == (), "of two ranks neither is the odd one"


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(Path.cwd() / "ran"),)


def test_no_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(snapshot(trained(2)) | {"segments": [_Evil()], "more": _Evil()}))
    read_snapshot(str(path))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"segments": None},
        {"segments": [1, None, {}]},
        {"segments": [{"device": "x", "total_size": -1, "blocks": {"a": 1}}]},
        {"segments": [{"device": 1 << 80, "total_size": 1.5, "blocks": [{"size": []}, 3]}]},
        {"device_traces": 7},
        {"device_traces": [None, [{"action": "alloc"}], [{"action": "oom", "frames": 3}]]},
        {"device_traces": [[{"action": "free_completed", "addr": 1, "size": 1 << 62}]]},
    ],
)
def test_values_of_other_types(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(snapshot(trained(2)) | change, protocol=4))
    if change.get("segments", ()) is None:
        with pytest.raises(EvidenceError, match="no snapshot"):
            read_snapshot(str(path))
        return
    found: MemorySnapshot = read_snapshot(str(path))
    for one in found.devices:
        assert one.free_bytes >= 0
        assert one.allocated_bytes >= 0
    analyse([str(path)])


def test_damage_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "s.pickle", trained())
    whole = path.read_bytes()
    for length in (0, 1, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(EvidenceError):
            read_snapshot(str(path))
    good = write(tmp_path / "good.pickle", trained())
    found, _ = report(path, good)
    assert [one.where for one in found.problems] == [str(path)]


def test_it_is_evidence(tmp_path: Path) -> None:
    write(tmp_path / "rank0.pickle", trained(1))
    (tmp_path / "other.pickle").write_bytes(pickle.dumps({"weights": [1, 2]}))
    kinds = {Path(one.path).name: one.kind for one in take_inventory([str(tmp_path)]).items}
    assert kinds == {"rank0.pickle": Kind.MEMORY, "other.pickle": Kind.OTHER}
