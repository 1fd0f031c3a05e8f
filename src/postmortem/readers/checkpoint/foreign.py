"""Checkpoints of other programs, which are not scanned: what they are."""

import re
from pathlib import Path

from postmortem.readers.regular import open_regular
from postmortem.text import cut

HINT = "convert it first, as to .safetensors or .npz, where the program that wrote it is at hand"
TAR_HINT = (
    "of NeMo (.nemo): unpack it with tar and scan what is in it; of the first releases of PyTorch: "
    "torch.load() it with weights_only=False and save it again"
)

FETCH_HINT = (
    "fetch the file itself: git lfs pull, or download it again, with the token that it needs"
)

_POINTER = b"version https://git-lfs.github.com/spec/"
_POINTER_SIZE = re.compile(rb"\nsize (\d{1,18})\n")
_PAGE = re.compile(rb"\s*<(?:!doctype\s+html|html|head)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>\s*([^<]{1,60}?)\s*<", re.IGNORECASE)
_TEXT = re.compile(r"[^\x00-\x08\x0e-\x1f\x7f]*")

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
_MOST_QUOTED = 60
_LEAST_TEXT = 8
_MOST_FOLDERS = 100
"""Orbax keeps each item in a folder of its own."""


def no_download(head: bytes) -> str | None:
    """Return what came in place of a file: a pointer of Git LFS, a page; None for all else."""
    if head.startswith(_POINTER):
        size = _POINTER_SIZE.search(head)
        of = f" of {int(size[1]):,} bytes" if size is not None else ""
        return f"is a pointer of Git LFS, which stands for a file{of} that was not fetched"
    if not _PAGE.match(head):
        return None
    title = _TITLE.search(head.decode("utf-8", errors="replace"))
    named = f" ({title[1]})" if title is not None and title[1].isprintable() else ""
    return f"is a web page{named}: a server's answer in place of the file"


def text(head: bytes) -> str | None:
    """Return how a file of words begins, such as a server's answer; None for any other."""
    try:
        words = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # else a character is cut
            return None
        words = head[: error.start].decode("utf-8")
    if len(head) < _LEAST_TEXT or not words.strip() or not _TEXT.fullmatch(words):
        return None
    begin = words.strip().splitlines()[0].strip()
    begin = cut(begin, _MOST_QUOTED)
    return f"is not a checkpoint that can be scanned, but text: it begins with {begin!r}"


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
        with open_regular(path) as stream:
            stream.seek(-len(_TABLE_MAGIC), 2)
            return stream.read() == _TABLE_MAGIC
    except OSError:
        return False
