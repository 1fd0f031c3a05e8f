"""Packed streams as they come out: frames joined end to end, padding, cuts, damage, bounded memory.

systemd-coredump writes zstd or lz4, ABRT and admins' pipes gzip or xz; parallel packers (pzstd,
pigz, pbzip2, xz -T) write many frames, and pzstd puts skippable frames between them.
"""

import importlib
import sys
from collections.abc import Generator, Iterator
from typing import BinaryIO, Protocol

from postmortem.errors import EvidenceError
from postmortem.readers.formats import HEAD_BYTES, compression_of, is_skippable

READ_BYTES = 128 << 10
OUTPUT_BYTES = 1 << 20
"""Most that one step gives; damage loses what its own step had unpacked, so it is kept small."""

_MAGIC_BYTES = 6
_SEARCH_FRAMES = 10_000
_LEGACY_MAGIC = b"\x02\x21\x4c\x18"
_LEGACY_BLOCK = 8 << 20
_LEGACY_PACKED = _LEGACY_BLOCK + _LEGACY_BLOCK // 255 + 16
"""LZ4_COMPRESSBOUND of a block (lz4.h)."""


class StreamError(Exception):
    """The stream ends early or is damaged; everything before that has been handed out."""


class Readable(Protocol):
    """What a packed stream is read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""


class Decoder(Protocol):
    """One frame on its way out, as `bz2.BZ2Decompressor` has it."""

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes out without new input."""

    @property
    def unused_data(self) -> bytes | None:
        """What followed the end of the frame."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Take input and return at most `max_length` bytes."""


class _Gzip:
    """zlib's decoder with the manners of the others."""

    def __init__(self) -> None:
        import zlib

        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _LegacyLz4:
    """The frame of `lz4 -l`: blocks of 8 MiB, each behind its packed size, with no end mark.

    It ends with the file or where the next size is the magic of another frame
    (doc/lz4_Frame_format.md, "Legacy frame"); so its end cannot be told from a cut between blocks.
    """

    def __init__(self) -> None:
        self.eof = False
        self.unused_data: bytes | None = None
        self._input = bytearray()
        self._ready = b""
        self._started = False
        self._block = importlib.import_module("lz4.block")

    @property
    def needs_input(self) -> bool:
        return not self._ready and not self._step_possible()

    @property
    def between_blocks(self) -> bool:
        """Whether the input may end here."""
        return self._started and not self._input and not self._ready

    def _step_possible(self) -> bool:
        if not self._started or len(self._input) < 4:
            return False
        size = int.from_bytes(self._input[:4], "little")
        return size > _LEGACY_PACKED or len(self._input) >= 4 + size

    def decompress(self, data: bytes, max_length: int) -> bytes:
        self._input += data
        if not self._started and len(self._input) >= 4:
            del self._input[:4]
            self._started = True
        if not self._ready and self._step_possible():
            self._next_block()
        out, self._ready = self._ready[:max_length], self._ready[max_length:]
        return out

    def _next_block(self) -> None:
        start = bytes(self._input[:4])
        size = int.from_bytes(start, "little")
        if compression_of(start) or is_skippable(start):
            self.eof, self.unused_data = True, bytes(self._input)
        elif size > _LEGACY_PACKED:
            raise ValueError(f"a block of {size:,} bytes, more than the format allows")
        else:
            packed = bytes(self._input[4 : 4 + size])
            self._ready = self._block.decompress(packed, uncompressed_size=_LEGACY_BLOCK)
            del self._input[: 4 + size]


def _zstd() -> Decoder:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    zstd = importlib.import_module(name)
    # `zstd --long=31` needs a window of 2 GiB; the library refuses more than 128 MiB unasked.
    largest_window = {zstd.DecompressionParameter.window_log_max: 31}
    decoder: Decoder = zstd.ZstdDecompressor(options=largest_window)
    return decoder


def _lz4() -> Decoder:
    decoder: Decoder = importlib.import_module("lz4.frame").LZ4FrameDecompressor()
    return decoder


def _decoder_for(head: bytes, compression: str) -> Decoder:
    if compression == "zstd":
        return _zstd()
    if compression == "lz4":
        return _LegacyLz4() if head.startswith(_LEGACY_MAGIC) else _lz4()
    if compression == "xz":
        import lzma

        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    if compression == "bzip2":
        import bz2

        return bz2.BZ2Decompressor()
    return _Gzip()


def compression_of_stream(stream: BinaryIO, head: bytes) -> str | None:
    """Return how a seekable stream is packed, looking past skippable frames at its start."""
    offset = 0
    for _ in range(_SEARCH_FRAMES):
        if not is_skippable(head):
            return compression_of(head)
        offset += 8 + int.from_bytes(head[4:8], "little")
        stream.seek(offset)
        head = stream.read(8)
    return None


def beginning(stream: BinaryIO) -> tuple[bytes, str | None]:
    """Return the first `HEAD_BYTES` of what a file holds, unpacked, and how it is packed.

    Raises OSError, StreamError, and EvidenceError as `decoded` does.
    """
    head = stream.read(HEAD_BYTES)
    compression = compression_of_stream(stream, head)
    if compression is not None:
        stream.seek(0)
        head = next(decoded(stream, compression), b"")[:HEAD_BYTES]
    return head, compression


def decoded(stream: Readable, compression: str) -> Iterator[bytes]:
    """Yield what a stream unpacks to, in pieces of at most `OUTPUT_BYTES`.

    Raises `StreamError` after the last good piece when the stream is cut or damaged, and
    EvidenceError when this Python has no decoder for it.
    """
    data = b""
    while True:
        data = _skip_padding(stream, data, compression)
        if not data:
            return
        if not is_skippable(data) and compression_of(data) != compression:
            raise StreamError(_unexpected(data))
        try:
            decoder = _decoder_for(data, compression)
        except ImportError as error:
            hint = f"install it: pip install {package_of(error)}; or unpack the core by hand"
            raise EvidenceError("python", f"no decoder for {compression}", hint=hint) from error
        data = yield from _frame(stream, data, decoder)


def package_of(error: ImportError) -> str:
    """Return what to install for a module that is not there; of a namespace only that is named."""
    return "backports.zstd" if error.name == "backports" else str(error.name)


def _frame(stream: Readable, data: bytes, decoder: Decoder) -> Generator[bytes, None, bytes]:
    """Yield what one frame unpacks to; returns the input after it."""
    while not decoder.eof:
        try:
            piece = decoder.decompress(data, OUTPUT_BYTES)
        except (EOFError, OSError, ValueError, RuntimeError, MemoryError) as error:
            raise StreamError(f"the packed data are damaged ({error})") from error
        except Exception as error:  # zlib.error, lzma.LZMAError, ZstdError: bases differ
            raise StreamError(f"the packed data are damaged ({error})") from error
        data = b""
        if piece:
            yield piece
        if not decoder.eof and decoder.needs_input:
            data = stream.read(READ_BYTES)
            if not data:
                if isinstance(decoder, _LegacyLz4) and decoder.between_blocks:
                    return data
                raise StreamError("the packed data end early: the file was cut off")
    return decoder.unused_data or b""


def _skip_padding(stream: Readable, data: bytes, compression: str) -> bytes:
    """Return the input from the next frame's magic on, topped up so that it can be recognised.

    xz streams are padded with zeros to a multiple of four, and gzip files on tape with zeros.
    """
    while True:
        if compression in ("xz", "gzip"):
            data = data.lstrip(b"\0")
        if len(data) >= _MAGIC_BYTES:
            return data
        more = stream.read(READ_BYTES)
        if not more:
            return data
        data += more


def _unexpected(data: bytes) -> str:
    if len(data) < _MAGIC_BYTES:
        return f"the packed data end early: {len(data)} bytes of another frame at the end"
    return f"after the packed data follows something else ({data[:8].hex(' ')} …)"
