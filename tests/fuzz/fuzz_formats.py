"""Coverage-guided fuzzing of the readers of checkpoints, a target for each format, with atheris.

    fuzz_formats.py seeds FOLDER            writes seeds, a folder for each format
    fuzz_formats.py FORMAT FOLDER... -runs=3000 -seed=1 ...

The second is a libFuzzer with its options. What must hold for any bytes: a reader ends, raises
nothing but EvidenceError, and gives no place that does not lie in the file, by the word of
_scan.scan_file(), which looks itself.
"""

import io
import json
import pickle
import random
import struct
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from builders.checkpoints import floats, safetensors
from postmortem.errors import EvidenceError

_SPLIT = struct.Struct("<I")


# -- from bytes to the files of a checkpoint ---------------------------------------------------


def _one(name: str) -> Callable[[Path, bytes], Path]:
    def write(folder: Path, data: bytes) -> Path:
        path = folder / name
        path.write_bytes(data)
        return path

    return write


def _pickle(folder: Path, data: bytes) -> Path:
    """Put a description into an archive that is otherwise as it should be."""
    path = folder / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        for key in range(4):
            archive.writestr(f"archive/data/{key}", bytes(256))
    return path


def _array(folder: Path, data: bytes) -> Path:
    """Put an array into an archive; of two bytes, the first says whether it is packed."""
    path = folder / "arrays.npz"
    kind = zipfile.ZIP_DEFLATED if data[:1] > b"\x7f" else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("a.npy", data[1:])
    return path


def _distributed(folder: Path, data: bytes) -> Path:
    """Cut the bytes into .metadata and a shard."""
    head = data[: _SPLIT.size].ljust(_SPLIT.size, b"\0")
    cut = _SPLIT.size + _SPLIT.unpack(head)[0]
    (folder / ".metadata").write_bytes(data[_SPLIT.size : cut])
    (folder / "__0_0.distcp").write_bytes(data[cut:])
    return folder


def _index(folder: Path, data: bytes) -> Path:
    (folder / "a.safetensors").write_bytes(_safetensors_seed())
    (folder / "model.safetensors.index.json").write_bytes(data)
    return folder


FORMATS: dict[str, Callable[[Path, bytes], Path]] = {
    "safetensors": _one("model.safetensors"),
    "zip": _one("model.pt"),
    "pickle": _pickle,
    "legacy": _one("model.bin"),
    "npy": _one("array.npy"),
    "npz": _array,
    "distributed": _distributed,
    "index": _index,
    "gguf": _one("model.gguf"),
    "plain": _one("state.pkl"),
}


def check(folder: Path, kind: str, data: bytes) -> None:
    """Scan what the bytes make; raises AssertionError if the reader gave a wrong place."""
    from postmortem.readers.checkpoint.scanning import OUTSIDE, scan_checkpoint

    for old in folder.iterdir():
        old.unlink()
    path = FORMATS[kind](folder, data)
    try:
        facts = scan_checkpoint([str(path)])
    except EvidenceError:
        return
    for problem in facts.problems:
        assert problem.what != OUTSIDE, problem


# -- seeds -------------------------------------------------------------------------------------


def _safetensors_seed() -> bytes:
    rows = {
        "w": ("F32", [2, 2], floats(1, 2, 3, float("nan"))),
        "b": ("BF16", [2], b"\x80\x3f" * 2),
    }
    return safetensors(rows, format="pt")


def _gguf_seed() -> bytes:
    key = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, 1) + struct.pack("<Q", 1) + b"v"
    row = struct.pack("<Q", 1) + b"t" + struct.pack("<IQIQ", 1, 32, 8, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + key + row
    return head + bytes(-len(head) % 32) + b"\x00\x3c" + bytes(32)


def _array_seeds() -> dict[str, dict[str, bytes]]:
    import numpy as np

    array = np.asfortranarray(np.arange(6.0, dtype="f4").reshape(2, 3))
    npy, packed = io.BytesIO(), io.BytesIO()
    np.save(npy, array)
    np.savez_compressed(packed, a=array)
    value = {"a": array, "o": np.array([None]), "b": np.ones(2, ">f8")}
    return {
        "npy": {"fortran": npy.getvalue()},
        "npz": {"stored": b"\0" + npy.getvalue(), "packed": b"\xff" + npy.getvalue()},
        "zip": {"npz": packed.getvalue()},
        "plain": {f"protocol{p}": pickle.dumps(value, p) for p in (2, 4, 5)},
        "pickle": {f"arrays{p}": pickle.dumps(value, p) for p in (2, 4, 5)},
    }


def _torch_seeds(folder: Path) -> dict[str, dict[str, bytes]]:
    import numpy as np
    import torch
    import torch.distributed.checkpoint as dcp

    weight = torch.arange(6.0).reshape(2, 3)
    value = {
        "w": torch.nn.Parameter(weight),
        "t": weight.t(),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "sparse": weight.to_sparse(),
        "numpy": np.ones(2),
        "step": 3,
    }
    new, old = io.BytesIO(), io.BytesIO()
    torch.save(value, new)
    torch.save(value, old, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(new) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        description = archive.read(name)
    dcp.save({"w": weight, "extra": {"step": 3}}, checkpoint_id=folder, no_dist=True)
    metadata = (folder / ".metadata").read_bytes()
    shard = (folder / "__0_0.distcp").read_bytes()
    return {
        "zip": {"torch": new.getvalue()},
        "legacy": {"torch": old.getvalue()},
        "pickle": {"torch": description},
        "distributed": {"two": _SPLIT.pack(len(metadata)) + metadata + shard},
    }


def write_seeds(folder: Path) -> None:
    """Write the seeds of all formats; without NumPy or PyTorch, those of the others."""
    seeds: dict[str, dict[str, bytes]] = {kind: {} for kind in FORMATS}
    seeds["safetensors"]["small"] = _safetensors_seed()
    seeds["gguf"]["small"] = _gguf_seed()
    index = {"metadata": {"total_size": 20}, "weight_map": {"w": "a.safetensors", "x": "b.bin"}}
    seeds["index"]["two"] = json.dumps(index).encode()
    with tempfile.TemporaryDirectory() as spare:
        for more in (_array_seeds, lambda: _torch_seeds(Path(spare))):
            try:
                found = more()
            except ImportError:
                continue
            for kind, contents in found.items():
                seeds[kind] |= contents
    for kind, contents in seeds.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / kind / name).write_bytes(content)


def mutated(content: bytes, source: random.Random) -> bytes:
    """Return bytes with a few of them changed, cut out or doubled."""
    data = bytearray(content)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(data) + 1)
        what = source.randrange(4)
        if what == 0 and at < len(data):
            data[at] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
        elif what == 1:
            del data[at : at + source.randint(1, 8)]
        elif what == 2:
            data[at:at] = data[at : at + source.randint(1, 16)]
        else:
            data[at : at + 8] = struct.pack("<q", source.choice((-1, 0, 1 << 31, 1 << 62)))
    return bytes(data)


def main() -> None:
    """Write seeds, or fuzz one format."""
    kind = sys.argv[1]
    if kind == "seeds":
        write_seeds(Path(sys.argv[2]))
        return
    import atheris

    with atheris.instrument_imports(
        include=["postmortem.readers.checkpoint", "zipfile", "pickletools"]
    ):
        from postmortem.readers.checkpoint import scanning  # noqa: F401
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    atheris.Setup([sys.argv[0], *sys.argv[2:]], lambda data: check(folder, kind, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
