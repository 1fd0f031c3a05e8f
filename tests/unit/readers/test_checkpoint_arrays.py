"""NumPy's arrays in pickles: found, scanned, and never made by running the pickle."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.facts.tensors import ScannedTensor
from postmortem.readers.checkpoint.scanning import CheckpointFacts, scan_checkpoint

np = pytest.importorskip("numpy")
NAN = float("nan")


def scanned(path: Path) -> CheckpointFacts:
    return scan_checkpoint([str(path)])


def by_name(facts: CheckpointFacts) -> dict[str, ScannedTensor]:
    return {tensor.name: tensor for tensor in facts.tensors}


def pickled(folder: Path, value: Any, protocol: int = 4) -> Path:
    path = folder / "state.pkl"
    path.write_bytes(pickle.dumps(value, protocol))
    return path


def arrays() -> dict[str, Any]:
    base = np.arange(1, 13, dtype="f4").reshape(3, 4)
    base[1, 2] = NAN
    return {
        "c": base,
        "fortran": np.asfortranarray(base),
        "turned": base.T,
        "part": base[:, ::2],
        "none": np.zeros((0, 3)),
        "single": np.array(np.inf),
        "complex": np.full(2, 3 + 4j, "c8"),
        "counts": np.array([-7, 2]),
        "flags": np.array([True, False]),
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_of_a_pickle(tmp_path: Path, protocol: int) -> None:
    facts = scanned(pickled(tmp_path, arrays(), protocol))
    found = by_name(facts)
    assert (facts.problems, list(found)) == ((), list(arrays()))
    firsts = {name: t.first_nonfinite for name, t in found.items() if t.bad_count}
    assert firsts == {"c": 6, "fortran": 6, "turned": 7, "part": 3, "single": 0}
    assert found["turned"].shape == (4, 3)
    assert (found["c"].abs_min, found["c"].abs_max, found["c"].nan_count) == (1, 12, 1)
    assert (found["none"].numel, found["single"].shape) == (0, ())
    assert [found[name].abs_max for name in ("complex", "counts", "flags")] == [4, 7, 1]


@pytest.mark.torch
@pytest.mark.parametrize("zipped", [True, False])
def test_arrays_beside_tensors(tmp_path: Path, zipped: bool) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "rng_state.pth"
    mine = {"t": torch.ones(3), "numpy": np.random.RandomState(3).get_state(), "a": arrays()}
    torch.save(mine, path, _use_new_zipfile_serialization=zipped)
    found = by_name(scanned(path))
    assert (found["numpy.1"].shape, found["numpy.1"].dtype) == ((624,), "uint32")
    assert (found["a.c"].nan_count, found["t"].numel) == (1, 3)


@pytest.mark.parametrize(
    "array",
    [np.array([{}, None]), np.ones(2, ">f4"), np.zeros(2, [("x", "f4")]), np.array(["text"])],
)
def test_arrays_of_no_numbers_of_this_machine(tmp_path: Path, array: Any, prose: Prose) -> None:
    facts = scanned(pickled(tmp_path, {"odd": array, "good": np.ones(2)}))
    assert [tensor.name for tensor in facts.tensors] == ["good"]
    assert [p.where.rpartition(": ")[2] for p in facts.problems] == ["odd"]
    prose(facts.problems[0].what)
    assert not facts.damaged


def test_bfloat16_of_jax_by_the_name_of_its_class(tmp_path: Path) -> None:
    path = pickled(tmp_path, np.array([0x7FC0, 0x3F80], "u2"), 2)
    text = path.read_bytes()
    head = b"X\x02\x00\x00\x00u2"
    assert text.count(head) == 1
    path.write_bytes(text.replace(head, b"cml_dtypes\nbfloat16\n"))
    (tensor,) = scanned(path).tensors
    assert (tensor.dtype, tensor.nan_count, tensor.abs_max) == ("bfloat16", 1, 1)


def test_arrays_that_lie(tmp_path: Path, prose: Prose) -> None:
    text = pickled(tmp_path, {"a": np.ones(3, "f4"), "b": np.ones(2, "f8")}).read_bytes()
    path = tmp_path / "state.pkl"
    assert text.count(b"K\x03\x85") == 1
    path.write_bytes(text.replace(b"K\x03\x85", b"K\x04\x85"))
    facts = scanned(path)
    assert [tensor.name for tensor in facts.tensors] == ["b"]
    assert facts.damaged
    prose(facts.problems[0].what)
    path.write_bytes(text.replace(b"K\x03\x85", b"J\xff\xff\xff\xff\x85"))
    prose(scanned(path).problems[0].what)
    path.write_bytes(text[:-40])
    with pytest.raises(EvidenceError) as refused:
        scanned(path)
    prose(refused.value)


class Trap:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.path, "w"))


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    facts = scanned(pickled(tmp_path, {"trap": Trap(str(mark)), "a": np.ones(2)}))
    assert [tensor.name for tensor in facts.tensors] == ["a"]
    assert not mark.exists()


@pytest.mark.torch
def test_an_archive_that_was_packed_anew(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(12.0).reshape(3, 4)
    base[1, 2] = NAN
    plain, path = tmp_path / "plain.pt", tmp_path / "packed.pt"
    views = {"turned": base.t(), "column": base[:, 2], "wide": base[1:, 2:3].expand(2, 5)}
    torch.save({"whole": base, "row": base[1], **views, "a": np.ones(2)}, plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    facts = scanned(path)
    found = {name: tensor.first_nonfinite for name, tensor in by_name(facts).items()}
    assert found == {"whole": 6, "row": 2, "turned": 7, "column": 1, "wide": 0, "a": None}
    assert by_name(facts)["wide"].nan_count == 5
    assert not facts.problems


@pytest.mark.torch
def test_tensors_of_pickle_dump_are_said_to_be_left_out(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    facts = scanned(pickled(tmp_path, {"w": torch.ones(2), "a": np.ones(2)}))
    assert [tensor.name for tensor in facts.tensors] == ["a"]
    assert ["pickle.dump() wrote" in problem.what for problem in facts.problems] == [True]
