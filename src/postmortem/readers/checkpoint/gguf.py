"""The header of a GGUF file, as llama.cpp reads.

Weights that are plain numbers are scanned as they are. Of quantised ones the scales are: a NaN can
only be there, as the codes between them are integers. Source: ggml's docs/gguf.md, and
ggml-common.h for where in a block its scales stand.
"""

import struct
from collections.abc import Iterator
from math import prod
from typing import BinaryIO

from postmortem.errors import EvidenceError
from postmortem.facts.tensors import TensorPlace
from postmortem.readers.checkpoint.layout import Layout, NotScanned

MAGIC = b"GGUF"
SUFFIX = ".gguf"
_MOST_HEADER_BYTES = 1 << 28
_MOST_TENSORS = 1 << 20
_MOST_DIMENSIONS = 4
_ALIGNMENT = "general.alignment"
_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UINT32, _STRING, _ARRAY = 4, 8, 9

_PLAIN = {
    0: ("float32", 4),
    1: ("float16", 2),
    24: ("int8", 1),
    25: ("int16", 2),
    26: ("int32", 4),
    27: ("int64", 8),
    28: ("float64", 8),
    30: ("bfloat16", 2),
}
# type: (name, values in a block, its bytes, data type and places of its scales)
_BLOCKS: dict[int, tuple[str, int, int, str, tuple[int, ...]]] = {
    2: ("Q4_0", 32, 18, "float16", (0,)),
    3: ("Q4_1", 32, 20, "float16", (0, 2)),
    6: ("Q5_0", 32, 22, "float16", (0,)),
    7: ("Q5_1", 32, 24, "float16", (0, 2)),
    8: ("Q8_0", 32, 34, "float16", (0,)),
    10: ("Q2_K", 256, 84, "float16", (80, 82)),
    11: ("Q3_K", 256, 110, "float16", (108,)),
    12: ("Q4_K", 256, 144, "float16", (0, 2)),
    13: ("Q5_K", 256, 176, "float16", (0, 2)),
    14: ("Q6_K", 256, 210, "float16", (208,)),
    15: ("Q8_K", 256, 292, "float32", (0,)),
    16: ("IQ2_XXS", 256, 66, "float16", (0,)),
    17: ("IQ2_XS", 256, 74, "float16", (0,)),
    18: ("IQ3_XXS", 256, 98, "float16", (0,)),
    19: ("IQ1_S", 256, 50, "float16", (0,)),
    20: ("IQ4_NL", 32, 18, "float16", (0,)),
    21: ("IQ3_S", 256, 110, "float16", (0,)),
    22: ("IQ2_S", 256, 82, "float16", (0,)),
    23: ("IQ4_XS", 256, 136, "float16", (0,)),
    34: ("TQ1_0", 256, 54, "float16", (52,)),
    35: ("TQ2_0", 256, 66, "float16", (64,)),
    39: ("MXFP4", 32, 17, "float8_e8m0fnu", (0,)),
    41: ("Q1_0", 128, 18, "float16", (0,)),
}
_SCALE_BYTES = {"float16": 2, "float32": 4, "float8_e8m0fnu": 1}


def read_places(stream: BinaryIO, size: int, name: str) -> Layout:
    """Return where tensors and scales lie; raises EvidenceError if the header cannot be read."""
    header = _Header(stream, min(size, _MOST_HEADER_BYTES))
    try:
        version = header.number("I", 4)
        if version & 0xFFFF == 0:
            raise EvidenceError(name, "was written on a big-endian machine: not scanned")
        if version not in (2, 3):
            raise EvidenceError(name, f"is GGUF of version {version}: not known here")
        tensors, keys = header.number("Q", 8), header.number("Q", 8)
        if tensors > _MOST_TENSORS or keys > _MOST_TENSORS:
            raise ValueError(f"it counts {tensors:,} tensors and {keys:,} keys")
        alignment = 32
        for _ in range(keys):
            key, kind = header.text(), header.number("I", 4)
            value = header.value(kind)
            if key == _ALIGNMENT and isinstance(value, int):
                alignment = value
        if not 0 < alignment <= 1 << 20:
            raise ValueError(f"its alignment is {alignment}")
        rows = [header.tensor() for _ in range(tensors)]
    except ValueError as error:
        hint = "the file is cut, or still being downloaded; copy it again"
        raise EvidenceError(name, f"its header cannot be read: {error}", hint=hint) from None
    base = -(-header.at // alignment) * alignment
    layout = Layout()
    for tensor, shape, kind, offset in rows:
        with layout.part(f"{name}: {tensor}", "the file is cut: copy it again"):
            layout.tensors += _places(tensor, shape, kind, base + offset, size)
    return layout


def _places(
    tensor: str, shape: tuple[int, ...], kind: int, begin: int, size: int
) -> Iterator[TensorPlace]:
    """Yield where the numbers of a tensor are; NotScanned, or ValueError if not in the file."""
    count = prod(shape)
    if kind in _PLAIN:
        dtype, item = _PLAIN[kind]
        _inside(begin, count * item, size)
        yield TensorPlace(tensor, dtype, shape, begin)
        return
    if kind not in _BLOCKS:
        raise NotScanned(f"its type {kind} is not known here")
    quantised, each, block, dtype, places = _BLOCKS[kind]
    if count % each:
        raise ValueError(f"{count:,} values are not a whole number of {quantised} blocks of {each}")
    _inside(begin, count // each * block, size)
    step = (block // _SCALE_BYTES[dtype],)
    for place, which in zip(places, ("scales", "minima"), strict=False):
        name = f"{tensor} ({quantised} {which})"
        yield TensorPlace(name, dtype, (count // each,), begin + place, step)


def _inside(begin: int, wanted: int, size: int) -> None:
    if begin + wanted > size:
        raise ValueError(f"it should end at byte {begin + wanted:,}, but the file has {size:,}")


class _Header:
    """The numbers and texts of a header, one after the other; ValueError where it ends."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._size = size
        self.at = len(MAGIC)
        stream.seek(self.at)

    def _take(self, count: int) -> bytes:
        if count > self._size - self.at:
            raise ValueError(f"{count:,} bytes should follow byte {self.at:,}")
        self.at += count
        content = self._stream.read(count)
        if len(content) != count:
            raise ValueError(f"it ends before byte {self.at:,}")
        return content

    def number(self, code: str, count: int) -> int:
        """Return a little-endian number of so many bytes."""
        return int(struct.unpack(f"<{code}", self._take(count))[0])

    def text(self) -> str:
        """Return a text, which its length precedes."""
        return self._take(self.number("Q", 8)).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> object:
        """Return a value if it is a number of 32 bits, the only ones that matter here."""
        if kind == _UINT32:
            return self.number("I", 4)
        if kind in _SCALAR_BYTES:
            self._take(_SCALAR_BYTES[kind])
        elif kind == _STRING:
            self.text()
        elif kind == _ARRAY and depth < 4:
            inner, count = self.number("I", 4), self.number("Q", 8)
            if inner in _SCALAR_BYTES:
                self._take(count * _SCALAR_BYTES[inner])
            elif count > self._size:
                raise ValueError(f"an array in it counts {count:,} values")
            else:
                for _ in range(count):
                    self.value(inner, depth + 1)
        else:
            raise ValueError(f"a value in it is of type {kind}, which is not known here")
        return None

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """Return name, shape, type and offset of a tensor."""
        name, dimensions = self.text(), self.number("I", 4)
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError(f"{name[:60]} has {dimensions} dimensions")
        sizes = tuple(self.number("Q", 8) for _ in range(dimensions))
        if any(n >= 1 << 62 for n in sizes):
            raise ValueError(f"{name[:60]} is of shape {sizes[::-1]}")
        return name, sizes[::-1], self.number("I", 4), self.number("Q", 8)
