"""The formats of PyTorch beside its zip files, and tensors that are more than one storage."""

import math
import random
import shutil
import struct
import warnings
from pathlib import Path
from typing import Any

import pytest

from builders.forks import run_together
from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.facts.tensors import Part, ScannedTensor
from postmortem.readers.checkpoint.joining import index_in_whole
from postmortem.readers.checkpoint.scanning import CheckpointFacts, scan_checkpoint

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
NAN = math.nan


def scanned(*paths: Path) -> CheckpointFacts:
    return scan_checkpoint([str(path) for path in paths])


def by_name(facts: CheckpointFacts) -> dict[str, ScannedTensor]:
    return {tensor.name: tensor for tensor in facts.tensors}


def legacy(folder: Path, value: Any, **words: Any) -> Path:
    path = folder / "old.pt"
    torch.save(value, path, _use_new_zipfile_serialization=False, **words)
    return path


# -- before PyTorch 1.6 -------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 4])
def test_the_format_before_1_6(tmp_path: Path, protocol: int) -> None:
    base = torch.arange(20.0).reshape(4, 5)
    base[2, 3] = NAN
    value = {
        "whole": base,
        "turned": base.t(),
        "part": base[1:3, ::2],
        "half": torch.ones(3, dtype=torch.bfloat16),
        "u16": torch.full((3,), 7, dtype=torch.uint16),
        "fp8": torch.ones(3).to(torch.float8_e5m2),
        "empty": torch.zeros(0),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    found = by_name(scanned(legacy(tmp_path, value, pickle_protocol=protocol)))
    assert (found["whole"].first_nonfinite, found["turned"].first_nonfinite) == (13, 3 * 4 + 2)
    assert (found["part"].shape, found["part"].nan_count) == ((2, 3), 0)
    assert [found[name].abs_max for name in ("half", "u16", "fp8", "parameter")] == [1, 7, 1, 1]
    assert found["empty"].numel == 0
    assert len(found) == len(value)


def test_a_cut_file_of_the_old_format(tmp_path: Path, prose: Prose) -> None:
    path = legacy(tmp_path, {"a": torch.ones(1000), "b": torch.ones(1000)})
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    facts = scanned(path)
    assert len(facts.tensors.items) == 1  # the storages are in the order of their keys
    assert facts.damaged
    prose(facts.problems[0].what)
    path.write_bytes(whole[: -4000 - 8])
    facts = scanned(path)
    assert (len(facts.tensors.items), facts.damaged) == (1, True)
    assert any("ends before 1 of its 2 storages" in p.what for p in facts.problems)
    path.write_bytes(whole[:100])
    with pytest.raises(EvidenceError):
        scanned(path)


def test_an_old_file_that_lies_about_its_storages(tmp_path: Path, prose: Prose) -> None:
    path = legacy(tmp_path, {"a": torch.ones(1000)})
    content = bytearray(path.read_bytes())
    at = len(content) - 4008
    assert struct.unpack_from("<q", content, at) == (1000,)
    for wrong in (1 << 62, -1, 999):
        struct.pack_into("<q", content, at, wrong)
        path.write_bytes(content)
        facts = scanned(path)
        assert facts.tensors.items == ()
        assert facts.damaged
    (key,) = {word for word in facts.problems[0].what.split() if word.isdigit()}
    prose(*(problem.what.replace(key, "KEY") for problem in facts.problems))


# -- torch.distributed.checkpoint ---------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of a linear layer, written by two threads that stand for two ranks."""
    import torch.distributed.checkpoint as dcp

    folder = tmp_path_factory.mktemp("dcp") / "step-3"
    weight = torch.arange(35.0).reshape(7, 5)
    weight[5, 2] = NAN
    value = {"model": {"weight": weight, "bias": torch.ones(7)}, "extra": {"step": 3}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(value, checkpoint_id=folder, no_dist=True)
    return folder


def test_a_distributed_checkpoint(saved: Path) -> None:
    for named in (saved, saved / ".metadata", saved / "__0_0.distcp"):
        facts = scanned(named)
        found = by_name(facts)
        assert facts.problems == ()
        assert sorted(found) == ["model.bias", "model.weight"]
        weight = found["model.weight"]
        assert (weight.shape, weight.nan_count, weight.first_nonfinite) == ((7, 5), 1, 27)
        assert weight.abs_max_finite == 34.0


def test_a_save_that_did_not_finish(saved: Path, tmp_path: Path, prose: Prose) -> None:
    shutil.copy(saved / "__0_0.distcp", tmp_path)
    facts = scanned(tmp_path)
    assert facts.damaged
    prose(facts.problems[0].what)
    assert sorted((t.shape, t.nan_count) for t in facts.tensors) == [((7,), 0), ((7, 5), 1)]


def test_shards_that_are_cut_or_missing(saved: Path, tmp_path: Path, prose: Prose) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "copy"))
    shard = folder / "__0_0.distcp"
    shard.write_bytes(shard.read_bytes()[:-700])
    facts = scanned(folder)
    assert facts.damaged
    prose(*(problem.what for problem in facts.problems))
    shard.unlink()
    with pytest.raises(EvidenceError) as refused:
        scanned(folder)
    prose(refused.value)


def test_metadata_of_other_programs(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "project" / ".metadata").mkdir(parents=True)
    (tmp_path / ".metadata").write_bytes(b"[workspace]\n")
    torch.save(torch.ones(3), tmp_path / "a.pt")
    facts = scanned(tmp_path)
    assert (facts.problems, facts.damaged, len(facts.tensors.items)) == ((), False, 1)


def test_names_that_lead_out_of_the_folder(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "copy"))
    metadata = folder / ".metadata"
    content = metadata.read_bytes().replace(b"\x8c\x0c__0_0.distcp", b"\x8c\x0c../../a.dist")
    assert content != metadata.read_bytes()
    metadata.write_bytes(content)
    (tmp_path / "a.dist").write_bytes((folder / "__0_0.distcp").read_bytes())
    assert scanned(folder).tensors.items == ()


def test_parts_of_a_tensor_are_joined(tmp_path: Path) -> None:
    """Two gloo ranks write shards of one FSDP2 model; NaN in the part of the second."""
    program = Path(__file__).parents[2] / "programs" / "save_sharded.py"
    assert run_together([([program, tmp_path, rank], {}) for rank in range(2)], tmp_path) == [0, 0]
    facts = scanned(tmp_path / "dcp")
    assert facts.problems == ()
    weight = by_name(facts)["weight"]
    assert (weight.shape, weight.numel, weight.nan_count) == ((7, 5), 35, 1)
    assert weight.first_nonfinite == 5 * 5 + 2
    assert weight.file.endswith("__1_0.distcp")
    one = scanned(tmp_path / "rank1.pt")
    assert [(t.name, t.shape, t.nan_count) for t in one.tensors] == [
        ("weight", (3, 5), 1),
        ("bias", (3,), 0),
    ]


def test_the_index_in_the_whole() -> None:
    whole = torch.arange(4 * 6 * 5).reshape(4, 6, 5)
    part = whole[1:3, 2:6, 3:5]
    for index, value in enumerate(part.flatten().tolist()):
        assert index_in_whole(index, Part((4, 6, 5), (1, 2, 3), (2, 4, 2))) == value


@pytest.mark.parametrize("seed", range(3))
def test_damaged_distributed_checkpoints(saved: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    metadata, shard = ((saved / name).read_bytes() for name in (".metadata", "__0_0.distcp"))
    outcomes = set()
    for _ in range(60):
        contents = [bytearray(metadata), bytearray(shard)]
        which = rng.choice(contents)
        for _ in range(rng.choice([1, 4])):
            at = rng.randrange(len(which))
            if rng.random() < 0.2:
                del which[max(at, 1) :]
            else:
                which[at] = rng.randrange(256)
        (tmp_path / ".metadata").write_bytes(contents[0])
        (tmp_path / "__0_0.distcp").write_bytes(contents[1])
        try:
            facts = scanned(tmp_path)
        except EvidenceError:
            outcomes.add("refused")
            continue
        outcomes.add("damaged" if facts.damaged else "read")
        assert all(t.numel <= math.prod(t.shape) for t in facts.tensors)
    assert {"damaged", "read"} <= outcomes


# -- tensors that are more than a storage -------------------------------------------------------


class Named(torch.Tensor):  # type: ignore[misc, name-defined, unused-ignore]
    pass


def test_kinds_of_tensors(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bad = torch.eye(3)
        bad[1, 1] = NAN
        value = {
            "sparse": bad.to_sparse(),
            "rows": bad.to_sparse_csr(),
            "quantized": torch.quantize_per_channel(
                torch.ones(4, 4), torch.rand(4) + 1, torch.zeros(4), 0, torch.qint8
            ),
            "subclass": torch.full((3,), NAN).as_subclass(Named),
            "storage": torch.full((4,), NAN).storage(),
            "conjugate": torch.ones(2, dtype=torch.complex64).conj(),
        }
        torch.save(value, tmp_path / "kinds.pt")
    facts = scanned(tmp_path / "kinds.pt")
    found = by_name(facts)
    assert facts.problems == ()
    assert found["sparse.values"].nan_count == found["rows.values"].nan_count == 1
    assert found["quantized.int_repr"].dtype == "int8"
    assert found["quantized.scales"].shape == (4,)
    assert (found["subclass"].nan_count, found["storage"].nan_count) == (3, 4)
    assert found["conjugate"].abs_max == 1.0


# -- compressed ---------------------------------------------------------------------------------


def test_compressed_arrays(tmp_path: Path, prose: Prose) -> None:
    numpy = pytest.importorskip("numpy")
    large = numpy.zeros((3, 1 << 20))  # three pieces
    large[2, 5] = NAN
    fortran = numpy.asfortranarray(numpy.ones((3, 4)))
    fortran[1, 2] = fortran[2, 0] = NAN
    words = numpy.array(["a", "b"])
    numpy.savez_compressed(tmp_path / "a.npz", large=large, fortran=fortran, words=words)
    facts = scanned(tmp_path / "a.npz")
    found = by_name(facts)
    assert (found["large"].first_nonfinite, found["large"].numel) == (2 * (1 << 20) + 5, 3 << 20)
    assert (found["fortran"].first_nonfinite, found["fortran"].nan_count) == (6, 2)
    assert not facts.damaged
    prose(facts.problems[0].what)


def test_a_compressed_record_that_is_damaged(tmp_path: Path, prose: Prose) -> None:
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "a.npz"
    numpy.savez_compressed(path, x=numpy.random.default_rng(0).random(10_000))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    facts = scanned(path)
    assert (facts.tensors.items, facts.damaged) == ((), True)
    prose(facts.problems[0].what)


def test_a_file_that_is_compressed_as_a_whole(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "a.pt.gz"
    path.write_bytes(gzip.compress(b"x" * 100))
    with pytest.raises(EvidenceError, match="is compressed"):
        scanned(path)
