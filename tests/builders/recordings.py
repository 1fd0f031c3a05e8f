"""Logs for tests, read natively."""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from postmortem import _native

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "strace"
TRUTH: dict[str, dict[str, Any]] = json.loads((CORPUS / "truth.json").read_text())
zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def unpacked(name: str) -> bytes:
    """Return a recording of the corpus."""
    data: bytes = zstd.decompress((CORPUS / name).read_bytes())
    return data


def puller(data: bytes, size: int = 1 << 16) -> Callable[[], bytes]:
    """Return what hands out `data` in pieces."""
    pieces = iter([data[i : i + size] for i in range(0, len(data), size)])
    return lambda: next(pieces, b"")


def read(data: bytes | str, **options: Any) -> Any:
    """Read one log."""
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    return _native.read_strace([(puller(data), 0)], **options)


def recording(name: str, **options: Any) -> Any:
    """Read a recording of the corpus: a file, or a folder of -ff."""
    path = CORPUS / name
    if path.is_dir():
        files = sorted((int(file.name.split(".")[2]), file) for file in path.iterdir())
        sources = [(puller(zstd.decompress(file.read_bytes())), pid) for pid, file in files]
        return _native.read_strace(sources, **options)
    return read(unpacked(name), **options)
