"""The header of a safetensors file.

Format: 8 bytes little endian with the length of a JSON object, the object, the data; see
https://huggingface.co/docs/safetensors. Offsets count from the end of the header.
"""

import json
from collections.abc import Iterator
from math import prod
from typing import BinaryIO

from postmortem.errors import EvidenceError
from postmortem.facts.tensors import TensorPlace
from postmortem.readers.checkpoint.layout import Layout, NotScanned, sizes
from postmortem.text import cut, some

_MOST_HEADER_BYTES = 100_000_000
"""The limit of the reference implementation."""
_MOST_TOLD = 3
"""How many tensors with the same fault are told one by one."""

# name: (name in PyTorch, bits of an element)
_DTYPES = {
    "F64": ("float64", 64),
    "F32": ("float32", 32),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F4": ("float4_e2m1fn_x2", 4),
    "I64": ("int64", 64),
    "I32": ("int32", 32),
    "I16": ("int16", 16),
    "I8": ("int8", 8),
    "U64": ("uint64", 64),
    "U32": ("uint32", 32),
    "U16": ("uint16", 16),
    "U8": ("uint8", 8),
    "BOOL": ("bool", 8),
    "C64": ("complex64", 64),
}


def looks_like_safetensors(head: bytes) -> bool:
    """Whether a file that begins so may be one; its name need not say so."""
    return len(head) >= 10 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 40


_NEVER_BAD = ("F6_E2M3", "F6_E3M2")
"""OCP Microscaling Formats 1.0, 5.3.2; four values lie in three bytes."""


def read_places(stream: BinaryIO, size: int, name: str) -> Layout:
    """Return where the tensors lie; raises EvidenceError if the header cannot be read."""
    head = stream.read(8)
    if len(head) < 8:
        raise EvidenceError(name, f"is not a safetensors file: it has {size} bytes")
    length = int.from_bytes(head, "little")
    if length > size - 8:
        what = f"its header should take {length:,} bytes, but only {size - 8:,} follow"
        hint = "the file is cut or not a safetensors file; copy it again if the original is whole"
        raise EvidenceError(name, what, hint=hint)
    if length > _MOST_HEADER_BYTES:
        raise EvidenceError(
            name, f"its header should take {length:,} bytes: no library writes that"
        )
    try:
        header = json.loads(stream.read(length))
    except (ValueError, RecursionError) as error:
        raise EvidenceError(name, f"its header is not JSON: {error}", offset=8) from None
    if not isinstance(header, dict):
        raise EvidenceError(name, "its header is not a JSON object", offset=8)
    return _laid(header, size, 8 + length, name)


def _laid(header: dict[str, object], size: int, base: int, name: str) -> Layout:
    layout = Layout()
    taken: list[tuple[int, int, str]] = []
    cut: list[tuple[int, str]] = []
    for key, row in header.items():
        if key == "__metadata__":
            continue
        with layout.part(f"{name}: {key}"):
            if not isinstance(row, dict):
                raise ValueError("its entry in the header is not an object")
            begin, end = _span(row, base)
            if end > begin:
                taken.append((begin, end, key))
            place = _place(key, row, begin, end - begin)
            if end > size:
                cut.append((end, key))
            else:
                layout.tensors.append(place)
    _tell_cut(layout, cut, size, name)
    if not layout.damaged:
        for what in _uncovered(taken, base, size):
            layout.damage(name, what, _REFUSED)
    for key, what in _overlaps([row for row in taken if row[1] <= size]):
        layout.damage(f"{name}: {key}", what)
    return layout


def _tell_cut(layout: Layout, cut: list[tuple[int, str]], size: int, name: str) -> None:
    remedy = "the file is cut: copy it again if the original is whole"
    if len(cut) <= _MOST_TOLD:
        for end, key in cut:
            what = f"its data should end at byte {end:,}, but the file has {size:,}"
            layout.damage(f"{name}: {key}", what, remedy)
        return
    cut.sort()
    names = some([key for _, key in cut], 3)
    what = f"the data of {len(cut):,} tensors do not lie in it ({names}): "
    layout.damage(name, f"{what}it should end at byte {cut[-1][0]:,}, but has {size:,}", remedy)


_REFUSED = "the library of safetensors refuses to load it: copy it again, or write it again"


def _uncovered(taken: list[tuple[int, int, str]], base: int, size: int) -> Iterator[str]:
    """Yield the first bytes that belong to no tensor: the format allows none.

    Those of a name that stands twice in the header are among them, as the last one counts.
    """
    reach = base
    for begin, end, _ in sorted(taken):
        if begin > reach:
            yield f"bytes {reach:,} to {begin:,} belong to no tensor of its header"
            return
        reach = max(reach, end)
    if reach < size:
        yield f"{size - reach:,} bytes at its end belong to no tensor of its header"


def _span(row: dict[str, object], base: int) -> tuple[int, int]:
    """Return where a tensor's data begin and end in the file."""
    offsets = sizes(row.get("data_offsets"))
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(f"its data_offsets are {cut(repr(row.get('data_offsets')), 60)}")
    return base + offsets[0], base + offsets[1]


def _place(key: str, row: dict[str, object], begin: int, length: int) -> TensorPlace:
    dtype, shape = row.get("dtype"), sizes(row.get("shape"))
    if shape is None:
        raise ValueError(f"its shape is {cut(repr(row.get('shape')), 60)}")
    if dtype in _NEVER_BAD:
        raise NotScanned(f"{dtype} has neither NaN nor Inf")
    known = _DTYPES.get(dtype) if isinstance(dtype, str) else None
    if known is None:
        raise NotScanned(f"its data type {cut(repr(dtype), 60)} is not known here")
    here, bits = known
    wanted = prod(shape) * bits
    if wanted != length * 8:
        what = f"{dtype} of shape {[*shape]} takes {wanted // 8:,} bytes, its data_offsets span "
        raise ValueError(f"{what}{length:,}")
    if bits == 4:  # two values a byte: scanned as bytes
        shape = (length,)
    return TensorPlace(key, here, shape, begin)


def _overlaps(taken: list[tuple[int, int, str]]) -> Iterator[tuple[str, str]]:
    """Yield the tensors whose data lie where another one's do, twenty at most."""
    taken.sort()
    reach, owner, count = 0, "", 0
    for begin, end, key in taken:
        if begin < reach and count < 20:
            count += 1
            yield key, f"its data overlap with those of {owner}: at least one of them is wrong"
        if end > reach:
            reach, owner = end, key
