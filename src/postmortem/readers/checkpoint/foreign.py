"""Checkpoints of other programs, which are not scanned: what they are."""

from __future__ import annotations

from pathlib import Path

HINT = "convert it first, as to .safetensors or .npz, where the program that wrote it is at hand"
TAR_HINT = (
    "of NeMo (.nemo): unpack it with tar and scan what is in it; of the first releases of PyTorch: "
    "torch.load() it with weights_only=False and save it again"
)

_HEADS = (
    (b"\x89HDF\r\n\x1a\n", "is an HDF5 file, as Keras writes"),
    (b"lmgg", "is a GGML file, which came before GGUF"),
    (b"fmgg", "is a GGMF file, which came before GGUF"),
    (b"tjgg", "is a GGJT file, which came before GGUF"),
)
_TABLE_MAGIC = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"
"""Of LevelDB's tables, which TensorFlow's .index files are: their last eight bytes."""

_IN_FOLDERS = (
    ("_CHECKPOINT_METADATA", "is a checkpoint of Orbax (JAX)"),
    ("manifest.ocdbt", "is a checkpoint of Orbax (JAX)"),
    ("_METADATA", "is a checkpoint of Orbax (JAX)"),
    ("saved_model.pb", "is a SavedModel of TensorFlow"),
    ("checkpoint", "is a checkpoint of TensorFlow"),
    (".zarray", "is an array of Zarr"),
)
_MOST_FOLDERS = 100
"""Orbax keeps each item in a folder of its own."""


def is_tar(head: bytes) -> bool:
    """Return whether a file begins as a tar archive (POSIX.1-2001, pax, ustar header block)."""
    return head[257:262] == b"ustar"


def file(path: str, head: bytes) -> str | None:
    """Return what a file of another program is; None if that is not known."""
    name = Path(path).name
    for magic, what in _HEADS:
        if head.startswith(magic):
            return f"{what}: not scanned"
    if name.endswith(".index") and _ends_as_table(path):
        return "is the index of a checkpoint of TensorFlow: not scanned"
    if ".data-" in name and "-of-" in name:
        return "is a shard of a checkpoint of TensorFlow: not scanned"
    if name.endswith((".msgpack", ".keras", ".onnx", ".tflite")):
        return f"is a {Path(path).suffix} file: not scanned"
    return None


def folder(path: Path) -> str | None:
    """Return what a folder of another program is; None if that is not known."""
    inside = sorted(entry for entry in path.iterdir() if entry.is_dir())[:_MOST_FOLDERS]
    for name, what in _IN_FOLDERS:
        if any((at / name).is_file() for at in (path, *inside)):
            return f"{what}: not scanned"
    return None


def _ends_as_table(path: str) -> bool:
    try:
        with Path(path).open("rb") as stream:
            stream.seek(-len(_TABLE_MAGIC), 2)
            return stream.read() == _TABLE_MAGIC
    except OSError:
        return False
