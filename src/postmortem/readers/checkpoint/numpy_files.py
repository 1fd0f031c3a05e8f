"""The header of a .npy file.

Format: numpy.lib.format, versions 1 to 3; the header is a Python literal, and is read as one.
"""

import ast
import re
from math import prod
from typing import BinaryIO

from postmortem.errors import EvidenceError
from postmortem.facts.tensors import TensorPlace
from postmortem.readers.checkpoint.layout import NotScanned, sizes

MAGIC = b"\x93NUMPY"
_MOST_HEADER_BYTES = 1 << 20
_KINDS = {
    "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128",
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8",
    "u2": "uint16", "u4": "uint32", "u8": "uint64",
}  # fmt: skip
_NATIVE = re.compile(r"[<|=]?([fciub]\d+)")
ITEM_BYTES = {"bool": 1, **{name: int(code[1:]) for code, name in _KINDS.items()}}


def read_place(
    stream: BinaryIO, size: int, name: str, *, tensor: str, base: int = 0
) -> TensorPlace:
    """Return where the array lies in a stream of `size` bytes that begins at byte `base`.

    Raises EvidenceError if the header cannot be read, or the data do not lie inside; NotScanned if
    they are no numbers of this machine's.
    """
    head = stream.read(10)
    if head[:6] != MAGIC or len(head) < 10:
        raise EvidenceError(name, "is not a .npy file: it does not begin with \\x93NUMPY")
    wide = head[6] >= 2
    length = int.from_bytes(head[8:10] + (stream.read(2) if wide else b""), "little")
    start = 12 if wide else 10
    if length > min(_MOST_HEADER_BYTES, size - start):
        what = f"its header should take {length:,} bytes; {size - start:,} follow"
        raise EvidenceError(name, what, hint="the file is cut, or not a .npy file")
    descr, fortran, shape = _header(stream.read(length), name)
    if not isinstance(descr, str):
        raise NotScanned("it holds records, which are not of one data type")
    dtype = dtype_of(descr)
    needed = prod(shape) * ITEM_BYTES[dtype]
    there = size - start - length
    if needed > there:
        what = f"{dtype} of shape {shape} takes {needed:,} bytes, but only {there:,} are there"
        raise EvidenceError(name, what, hint="the file is cut: copy it again, or write it again")
    strides = None
    if fortran and len(shape) > 1:
        strides = fortran_strides(shape)
    return TensorPlace(tensor, dtype, shape, base + start + length, strides)


def dtype_of(descr: str) -> str:
    """Return the name of a data type as NumPy describes it, such as ``<f4``.

    Raises NotScanned if it is none of numbers, or not in the order of this machine's bytes.
    """
    native = _NATIVE.fullmatch(descr)
    dtype = _KINDS.get(native.group(1)) if native else None
    if dtype is None:
        raise NotScanned(f"its data type {descr[:40]!r} is not known here")
    return dtype


def fortran_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array whose first index runs fastest."""
    return tuple(prod(shape[:i]) for i in range(len(shape)))


def _header(text: bytes, name: str) -> tuple[object, bool, tuple[int, ...]]:
    try:
        header = ast.literal_eval(text.decode("utf-8").strip())
        descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError) as error:
        raise EvidenceError(name, f"its header cannot be read: {type(error).__name__}") from None
    known = sizes(shape)
    if known is None:
        raise EvidenceError(name, f"its shape is {str(shape)[:60]}")
    return descr, bool(fortran), known
