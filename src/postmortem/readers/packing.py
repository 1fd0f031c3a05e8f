"""Packs a file as its new name says: the other direction of `codecs`.

Levels are the fast ones: a slim core of 20 MiB takes a tenth of a second with zstd, and is written
while somebody waits for a crashed job to start again.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

from postmortem.errors import EvidenceError
from postmortem.readers.codecs import package_of

_PIECE = 1 << 20
_NAMES = {".zst": "zstd", ".lz4": "lz4", ".gz": "gzip", ".xz": "xz", ".bz2": "bzip2"}


class Encoder(Protocol):
    """A stream on its way in, as `bz2.BZ2Compressor` has it."""

    def compress(self, data: bytes, /) -> bytes:
        """Take input and return what is ready."""

    def flush(self) -> bytes:
        """Return the rest."""


def packing_of(path: Path) -> str | None:
    """Return how a file of that name is packed; None: not at all."""
    return _NAMES.get(path.suffix.lower())


def require_encoder(packing: str) -> None:
    """Raise EvidenceError when this Python cannot pack that way, before work is done for it."""
    _encoder(packing)


def pack(source: BinaryIO, target: BinaryIO, packing: str) -> None:
    """Write all of `source`, from its position on, packed to `target`."""
    encoder = _encoder(packing)
    while piece := source.read(_PIECE):
        target.write(encoder.compress(piece))
    target.write(encoder.flush())


def _encoder(packing: str) -> Encoder:
    try:
        return _ENCODERS[packing]()
    except ImportError as error:
        hint = f"install it: pip install {package_of(error)}; or give OUT a name without its ending"
        raise EvidenceError("python", f"no encoder for {packing}", hint=hint) from error


def _zstd() -> Encoder:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    encoder: Encoder = importlib.import_module(name).ZstdCompressor(level=3)
    return encoder


class _Lz4:
    """lz4's encoder with the manners of the others: its frame has a header to begin with."""

    def __init__(self) -> None:
        self._inner = importlib.import_module("lz4.frame").LZ4FrameCompressor()
        self._ready: bytes = self._inner.begin()

    def compress(self, data: bytes, /) -> bytes:
        head, self._ready = self._ready, b""
        packed: bytes = self._inner.compress(data)
        return head + packed

    def flush(self) -> bytes:
        rest: bytes = self._inner.flush()
        return self._ready + rest


def _gzip() -> Encoder:
    import zlib

    return zlib.compressobj(level=6, wbits=31)


def _xz() -> Encoder:
    import lzma

    return lzma.LZMACompressor(preset=1)


def _bzip2() -> Encoder:
    import bz2

    return bz2.BZ2Compressor()


_ENCODERS: dict[str, Callable[[], Encoder]] = {
    "zstd": _zstd,
    "lz4": _Lz4,
    "gzip": _gzip,
    "xz": _xz,
    "bzip2": _bzip2,
}
