"""Checkpoints as libraries write them, and as crafted files pretend to be."""

from __future__ import annotations

import math
import os
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.checkpoints import floats, safetensors, sharded, with_header
from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.facts.tensors import ScannedTensor
from postmortem.readers.checkpoint.scanning import CheckpointFacts, scan_checkpoint

NAN, INF = math.nan, math.inf


def scanned(path: Path, *more: Path) -> CheckpointFacts:
    return scan_checkpoint([str(path), *map(str, more)])


def by_name(facts: CheckpointFacts) -> dict[str, ScannedTensor]:
    return {tensor.name: tensor for tensor in facts.tensors}


def written(folder: Path, content: bytes, name: str = "model.safetensors") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_safetensors(tmp_path: Path) -> None:
    content = safetensors(
        {
            "a.weight": ("F32", [2, 3], floats(1, -2, NAN, 0, INF, 4)),
            "b": ("BF16", [2], bytes([0x80, 0x3F, 0xC0, 0x7F])),
            "none": ("F16", [0, 4], b""),
            "count": ("I64", [], (7).to_bytes(8, "little")),
            "half": ("F4", [2, 2], b"\x10\x7f"),
        },
        format="pt",
    )
    facts = scanned(written(tmp_path, content))
    found = by_name(facts)
    assert facts.problems == ()
    assert not facts.damaged
    a = found["a.weight"]
    assert (a.nan_count, a.inf_count, a.zero_count, a.first_nonfinite) == (1, 1, 1, 2)
    assert (a.abs_max, a.abs_max_finite, a.abs_min, a.abs_min_nonzero) == (INF, 4.0, 0.0, 1.0)
    assert (found["b"].nan_count, found["b"].abs_max) == (1, 1.0)
    assert (found["none"].numel, found["count"].abs_max) == (0, 7.0)
    assert (found["half"].numel, found["half"].abs_max) == (4, 6.0)


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234"),
        ({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, b"0" * 8),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 8]}}, b"0" * 8),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, b"0" * 8),
        ({"a": {"dtype": "F32", "shape": "x", "data_offsets": [0, 0]}}, b""),
        ({"a": {"dtype": "F32", "shape": [1]}}, b""),
        ({"a": 3}, b""),
        ({"a": {"dtype": "Q7", "shape": [1], "data_offsets": [0, 8]}}, b"0" * 8),
        ({"a": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 8]}}, b"0" * 8),
    ],
)
def test_a_header_that_lies(tmp_path: Path, header: object, data: bytes, prose: Prose) -> None:
    assert isinstance(header, dict)
    good = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} if len(data) >= 4 else None
    facts = scanned(
        written(tmp_path, with_header({**header, **({"z": good} if good else {})}, data))
    )
    prose(facts.problems[0].what)
    assert facts.problems[0].where.endswith(": a")
    assert ["z"] * bool(good) == [tensor.name for tensor in facts.tensors]


@pytest.mark.parametrize(
    ("spans", "size", "offsets"),
    [([(0, 4), (8, 12)], 12, (4, 8)), ([(4, 8)], 8, (0, 4)), ([(0, 4)], 9, ())],
)
def test_bytes_of_no_tensor(
    tmp_path: Path, spans: list[tuple[int, int]], size: int, offsets: tuple[int, ...], prose: Prose
) -> None:
    rows = {
        f"t{begin}": {"dtype": "F32", "shape": [1], "data_offsets": [begin, end]}
        for begin, end in spans
    }
    content = with_header(rows, bytes(size))
    base = len(content) - size
    facts = scanned(written(tmp_path, content))
    assert all(f"{base + offset:,}" in facts.problems[0].what for offset in offsets)
    prose(facts.problems[0].what)
    assert facts.damaged
    assert len(facts.tensors.items) == len(spans)


def test_a_name_that_stands_twice(tmp_path: Path, prose: Prose) -> None:
    row = '"a": {"dtype": "F32", "shape": [1], "data_offsets": '
    header = ("{" + row + "[0, 4]}, " + row + "[4, 8]}}").encode()
    content = len(header).to_bytes(8, "little") + header + floats(NAN, 1)
    facts = scanned(written(tmp_path, content))
    assert facts.damaged
    prose(facts.problems[0].what)


def test_a_download_that_stopped_is_one_problem(tmp_path: Path, prose: Prose) -> None:
    whole = safetensors({f"t{i}": ("F32", [2], floats(i, 1)) for i in range(100)})
    (problem,) = scanned(written(tmp_path, whole[:-404])).problems
    prose(problem.what)


def test_overlapping_tensors_are_told(tmp_path: Path, prose: Prose) -> None:
    rows = {
        n: {"dtype": "F32", "shape": [2], "data_offsets": [4 * i, 4 * i + 8]}
        for i, n in enumerate("ab")
    }
    facts = scanned(written(tmp_path, with_header(rows, bytes(12))))
    prose(facts.problems[0].what)
    assert facts.damaged
    assert len(facts.tensors.items) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 100,
        (1 << 40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"{x",
        b"abc",
    ],
)
def test_what_is_no_safetensors_file(tmp_path: Path, content: bytes, prose: Prose) -> None:
    with pytest.raises(EvidenceError) as refused:
        scanned(written(tmp_path, content))
    prose(refused.value)


def test_shards_and_their_index(tmp_path: Path) -> None:
    shards = {
        "model-00001.safetensors": safetensors({"a": ("F32", [1], floats(1))}),
        "model-00002.safetensors": safetensors({"b": ("F32", [1], floats(NAN))}),
    }
    names = {"a": "model-00001.safetensors", "b": "model-00002.safetensors"}
    index = sharded(tmp_path, shards, names)
    for named in (index, tmp_path):
        facts = scanned(named)
        assert sorted(by_name(facts)) == ["a", "b"]
        assert not facts.damaged
    sharded(tmp_path, {}, {**names, "c": "model-00003.safetensors", "d": "../secret.safetensors"})
    for named in (index, tmp_path):
        facts = scanned(named)
        assert facts.damaged
        assert "model-00003.safetensors" in facts.problems[0].what
        assert "secret" not in str(facts)


def test_links_of_a_cache_that_lead_nowhere(tmp_path: Path, prose: Prose) -> None:
    snapshot = tmp_path / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    (tmp_path / "blob").write_bytes(safetensors({"a": ("F32", [1], floats(1))}))
    (snapshot / "a.safetensors").symlink_to("../../blob")
    (snapshot / "b.safetensors").symlink_to("../../lost")
    facts = scanned(tmp_path)
    assert list(by_name(facts)) == ["a"]
    assert facts.damaged
    (problem,) = facts.problems
    assert problem.where == str(snapshot / "b.safetensors")
    prose(problem.what)
    (snapshot / "a.safetensors").unlink()
    with pytest.raises(EvidenceError) as refused:
        scanned(tmp_path)
    prose(refused.value)


def test_an_index_that_is_not_of_its_shards(tmp_path: Path, prose: Prose) -> None:
    shards = {
        "a.safetensors": safetensors({"a": ("F32", [1], floats(1))}),
        "b.safetensors": safetensors({"b": ("F32", [1], floats(1)), "more": ("I8", [1], b"1")}),
        "new.safetensors": safetensors({"new": ("F7", [1], b"1")}),
    }
    names = {"a": "b.safetensors", "x": "b.safetensors", "b": "a.safetensors"}
    index = sharded(tmp_path, shards, {**names, "new": "new.safetensors"})
    for named in (index, tmp_path):
        facts = scanned(named)
        assert facts.damaged
        prose(*(p.what for p in facts.problems if p.where == str(index)))


def test_one_bad_file_among_good_ones(tmp_path: Path, prose: Prose) -> None:
    good = written(tmp_path, safetensors({"a": ("F32", [1], floats(1))}), "good.safetensors")
    bad = written(tmp_path, b"garbage, and more of it", "bad.pt")
    facts = scanned(good, bad)
    assert [tensor.name for tensor in facts.tensors] == ["a"]
    assert (facts.problems[0].where, facts.damaged) == (str(bad), True)
    with pytest.raises(EvidenceError) as refused:
        scanned(bad)
    prose(refused.value)
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("missing.pt", "empty", "fifo", "link"):
        with pytest.raises(EvidenceError) as refused:
            scanned(tmp_path / name)
        prose(refused.value)


def test_numpy_files(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4))
    array[1, 2] = NAN
    numpy.save(tmp_path / "a.npy", array)
    numpy.savez(tmp_path / "b.npz", x=array, y=numpy.zeros(3, "f2"))
    numpy.savez_compressed(tmp_path / "c.npz", x=array)
    numpy.save(tmp_path / "d.npy", numpy.zeros(3, ">f4"))
    assert by_name(scanned(tmp_path / "a.npy"))["a"].first_nonfinite == 6
    found = by_name(scanned(tmp_path / "b.npz"))
    assert (found["x"].first_nonfinite, found["y"].zero_count) == (6, 3)
    assert by_name(scanned(tmp_path / "c.npz"))["x"].first_nonfinite == 6
    with pytest.raises(EvidenceError, match="data type '>f4'"):
        scanned(tmp_path / "d.npy")
    content = (tmp_path / "a.npy").read_bytes()
    with pytest.raises(EvidenceError, match="only 88 are there"):
        scanned(written(tmp_path, content[:-8], "cut.npy"))
    # What pickles call a data type is none in a header: NumPy writes V2 there.
    named = content.replace(b"'<f8'", b"'bfloat16'").replace(b" " * 5 + b"\n", b"\n")
    with pytest.raises(EvidenceError, match="data type 'bfloat16'"):
        scanned(written(tmp_path, named, "named.npy"))


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    torch = pytest.importorskip("torch")

    def to_file(value: Any, **words: Any) -> Path:
        torch.save(value, tmp_path / "saved.pt", **words)
        return tmp_path / "saved.pt"

    return to_file


@pytest.mark.torch
def test_what_torch_saves(save: Callable[..., Path]) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 5)).sum().backward()
    optimizer.step()
    base = torch.arange(20.0).reshape(4, 5)
    base[2, 3] = NAN
    value = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "transposed": base.t(),
        "part": base[1:3, ::2],
        "row": base[0],
        "tied": base,
        "again": base,
        "fp8": torch.ones(3).to(torch.float8_e4m3fn),
        "bf16": torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16)),
        "complex": torch.ones(2, dtype=torch.complex64),
        "list": [torch.zeros(1), (torch.ones(1, dtype=torch.bool), None)],
        "epoch": 3,
        "args": type("X", (), {}),
    }
    value.pop("args")
    facts = scanned(save(value))
    assert facts.problems == ()
    found = by_name(facts)
    assert found["transposed"].first_nonfinite == 3 * 4 + 2
    assert (found["part"].numel, found["part"].nan_count, found["row"].abs_max) == (6, 0, 4.0)
    assert ("tied" in found) != ("again" in found)
    assert (found["fp8"].dtype, found["bf16"].dtype) == ("float8_e4m3fn", "bfloat16")
    assert (found["complex"].numel, found["list.1.0"].abs_max) == (2, 1.0)
    assert found["optimizer.state.0.exp_avg"].shape == (3, 5)
    for name, tensor in model.state_dict().items():
        row = found[f"model.{name}"]
        assert row.shape == tuple(tensor.shape)
        if tensor.numel():
            assert row.abs_max == pytest.approx(float(tensor.abs().max()), rel=0)


@pytest.mark.torch
def test_a_whole_module_is_read_without_running_it(save: Callable[..., Path]) -> None:
    import torch

    found = by_name(scanned(save(torch.nn.Sequential(torch.nn.Linear(2, 2)))))
    assert sorted(found) == ["0.bias", "0.weight"]


@pytest.mark.torch
def test_a_cut_archive(save: Callable[..., Path], prose: Prose) -> None:
    import torch

    path = save({"a": torch.ones(2000)})
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(EvidenceError) as refused:
        scanned(path)
    prose(refused.value)


class Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


def archive(folder: Path, content: bytes) -> Path:
    path = folder / "crafted.pt"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("x/data.pkl", content)
        out.writestr("x/data/0", bytes(64))
    return path


def test_nothing_in_a_pickle_is_run(tmp_path: Path) -> None:
    marker = tmp_path / "was-here"
    content = pickle.dumps({"a": Evil(marker), "b": [Evil(marker)] * 3})
    facts = scanned(archive(tmp_path, content))
    assert facts.tensors.items == ()
    assert not marker.exists()
    pickle.loads(content)
    assert marker.exists()  # the file would have run it


def test_crafted_pickles_end(tmp_path: Path) -> None:
    deep = b"\x80\x02" + b"(" * 5000 + b"t" * 5000 + b"."
    doubled = b"\x80\x02)" + b"2\x86" * 3000 + b"."  # a tuple of itself twice, 3000 times
    keys = b"\x80\x02}(" + b"\x80\x02)" + b"2\x86" * 200 + b"K\x01u."
    itself = b"\x80\x02]q\x00h\x00a."
    huge = b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b"abc."
    for content in (
        deep,
        doubled,
        keys,
        itself,
        huge,
        b"",
        b".",
        b"\x80\x02",
        b"(((",
        b"\x80\x63.",
    ):
        try:
            facts = scanned(archive(tmp_path, content))
        except EvidenceError:
            continue
        assert facts.tensors.items == ()


def test_a_tensor_beyond_its_storage_is_told(tmp_path: Path) -> None:
    def tensor(offset: int, shape: str, strides: str) -> bytes:
        storage = (
            b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
            b"X\x03\x00\x00\x00cpuK\x10tQ"
        )
        call = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage
        call += b"J" + offset.to_bytes(4, "little", signed=True)
        return call + shape.encode("latin-1") + strides.encode("latin-1") + b"\x89NtR"

    good = tensor(0, "K\x10\x85", "K\x01\x85")
    facts = scanned(archive(tmp_path, b"\x80\x02" + good + b"."))
    assert [(t.numel, t.zero_count) for t in facts.tensors] == [(16, 16)]
    for bad in (
        tensor(1, "K\x10\x85", "K\x01\x85"),
        tensor(-1, "K\x01\x85", "K\x01\x85"),
        tensor(0, "K\x10\x85", "K\x02\x85"),
        tensor(0, "\x8a\x07\xff\xff\xff\xff\xff\xff\x0f\x85", "K\x01\x85"),
    ):
        facts = scanned(archive(tmp_path, b"\x80\x02](" + good + bad + b"e."))
        assert len(facts.tensors.items) == 1
        assert facts.damaged


def samples(folder: Path) -> list[bytes]:
    """One file of each format, small."""
    found = [
        safetensors({"a": ("F32", [2, 3], floats(1, 2, 3, 4, 5, NAN)), "b": ("I8", [4], b"abcd")})
    ]
    try:
        import numpy
    except ImportError:
        return found
    numpy.save(folder / "s.npy", numpy.arange(6.0).reshape(2, 3))
    numpy.savez(folder / "s.npz", x=numpy.ones(4), y=numpy.zeros((2, 2), "f2"))
    numpy.savez_compressed(folder / "c.npz", x=numpy.ones((3, 4)).T, y=numpy.arange(99))
    found += [(folder / name).read_bytes() for name in ("s.npy", "s.npz", "c.npz")]
    try:
        import torch
    except ImportError:
        return found
    value = {"a": torch.ones(3, 2).t(), "s": {0: torch.zeros(5)}, "n": 1}
    for new in (True, False):
        torch.save(value, folder / "s.pt", _use_new_zipfile_serialization=new)
        found.append((folder / "s.pt").read_bytes())
    return found


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_told_or_read(tmp_path: Path, seed: int) -> None:
    """Bytes changed, cut, repeated: no other exception, and never a tensor that is not there."""
    rng = random.Random(seed)
    whole = samples(tmp_path)
    path = tmp_path / "damaged"
    outcomes = set()
    for _ in range(400):
        content = bytearray(rng.choice(whole))
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(content))
            match rng.randrange(4):
                case 0:
                    content[at] = rng.randrange(256)
                case 1:
                    del content[at:]
                    content += b"\0" * (not content)
                case 2:
                    content[at:at] = content[at : at + rng.randrange(40)]
                case _:
                    content[at] ^= 1 << rng.randrange(8)
        path.unlink(missing_ok=True)  # what is written over goes to the disk at once
        path.write_bytes(content)
        try:
            facts = scanned(path)
        except EvidenceError:
            outcomes.add("refused")
            continue
        outcomes.add("damaged" if facts.damaged else "read")
        for tensor in facts.tensors:
            assert tensor.numel == 0 or math.prod(tensor.shape) > 0
    assert outcomes == {"refused", "damaged", "read"}
