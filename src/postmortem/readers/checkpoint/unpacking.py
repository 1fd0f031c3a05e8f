"""Tensors in compressed records: unpacked and scanned piece by piece.

Only those whose values do not lie side by side in C order are held whole, as the first bad value is
told in that order.
"""

import zipfile
from collections.abc import Callable
from math import prod
from typing import IO

from postmortem.errors import EvidenceError
from postmortem.facts.tensors import ScannedTensor, TensorPlace
from postmortem.readers.checkpoint.archives import ZIP_ERRORS
from postmortem.readers.checkpoint.joining import together
from postmortem.readers.checkpoint.storages import ITEM_BYTES
from postmortem.readers.regular import open_regular
from postmortem.records import replace

_PIECE_BYTES = 8 << 20  # a multiple of all sizes of elements

_MOST_WHOLE_BYTES = 1 << 30

ScanPiece = Callable[
    [TensorPlace, bytearray, tuple[int, ...], tuple[int, ...] | None], ScannedTensor
]
"""Scans values in memory, of the type of a place and of a shape and strides."""


def scan_packed(
    path: str, place: TensorPlace, scan: ScanPiece, done: Callable[[], None]
) -> ScannedTensor:
    """Return what is in a tensor in a compressed record; `done` is called now and then.

    Raises EvidenceError if the record is damaged, or ends too early.
    """
    assert place.packed is not None
    left = _span(place) * ITEM_BYTES[place.dtype]
    if place.strides is not None and left > _MOST_WHOLE_BYTES:
        what = f"is compressed, not in C order, and takes {left:,} bytes: not scanned"
        raise EvidenceError(f"{path}: {place.name}", what)
    whole: ScannedTensor | None = None
    before = 0
    try:
        with (
            open_regular(path) as stream,
            zipfile.ZipFile(stream) as archive,
            archive.open(place.packed) as record,
        ):
            _skip(record, place.offset)
            if place.strides is not None:
                return scan(place, _filled(record, left), place.shape, place.strides)
            while left or whole is None:
                piece = _filled(record, min(left, _PIECE_BYTES))
                left -= len(piece)
                size = len(piece) // ITEM_BYTES[place.dtype]
                found = scan(place, piece, (size,), None)
                if found.first_nonfinite is not None:
                    found = replace(found, first_nonfinite=found.first_nonfinite + before)
                whole = found if whole is None else together(whole, found)
                before += found.numel
                done()
            record.read(1)  # at its end the checksum is compared
    except ZIP_ERRORS as error:
        raise EvidenceError(f"{path}: {place.name}", f"cannot be unpacked: {error}") from None
    return replace(whole, shape=place.shape)


def _span(place: TensorPlace) -> int:
    """Return how many values there are from the first to the last one in memory."""
    if place.strides is None or 0 in place.shape:
        return prod(place.shape)
    return 1 + sum((n - 1) * step for n, step in zip(place.shape, place.strides, strict=True))


def _filled(record: IO[bytes], size: int) -> bytearray:
    piece = bytearray()
    while len(piece) < size:
        more = record.read(size - len(piece))
        if not more:
            raise EOFError(f"it ends {size - len(piece):,} bytes too early")
        piece += more
    return piece


def _skip(record: IO[bytes], count: int) -> None:
    while count > 0:
        count -= len(_filled(record, min(count, _PIECE_BYTES)))
