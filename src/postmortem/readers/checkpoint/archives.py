"""Zip archives of arrays: what torch.save() writes, and .npz.

A record that is stored (not deflated) lies in the file as it is, and is scanned there.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import BinaryIO

from postmortem.errors import EvidenceError
from postmortem.facts.tensors import TensorPlace
from postmortem.readers.checkpoint.layout import Layout, NotScanned
from postmortem.readers.checkpoint.numpy_files import ITEM_BYTES, read_place
from postmortem.readers.checkpoint.pickled import PickleError, Tensor, load, tensors_of

MAGIC = b"PK\x03\x04"
_MOST_PICKLE_BYTES = 1 << 30
_HEAD_BYTES = 1 << 16
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    OSError,
    RuntimeError,
    EOFError,
    ValueError,
)
_ITEM_BYTES = {
    **ITEM_BYTES,
    "bfloat16": 2,
    "complex32": 4,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
}


def read_places(stream: BinaryIO, size: int, name: str) -> Layout:
    """Return where the tensors of an archive lie; raises EvidenceError if it is no checkpoint."""
    try:
        archive = zipfile.ZipFile(stream)
    except _ZIP_ERRORS as error:
        what = f"its table of records, which stands at the end, cannot be read: {error}"
        hint = "the file is cut (a full disk, a killed job): go back to the checkpoint before it"
        raise EvidenceError(name, what, hint=hint) from None
    records = {info.filename: info for info in archive.infolist()}
    pickles = [path for path in records if path == "data.pkl" or path.endswith("/data.pkl")]
    if pickles:
        return _torch(_Archive(archive, records, stream, size, name), pickles[0])
    arrays = [path for path in records if path.endswith(".npy")]
    if arrays:
        return _numpy(_Archive(archive, records, stream, size, name), arrays)
    raise EvidenceError(
        name,
        "is a zip archive without data.pkl or .npy: no checkpoint of torch.save() or NumPy",
    )


class _Archive:
    """A zip file whose stored records can be found in the file itself."""

    def __init__(
        self,
        archive: zipfile.ZipFile,
        records: dict[str, zipfile.ZipInfo],
        stream: BinaryIO,
        size: int,
        name: str,
    ) -> None:
        self.archive = archive
        self.records = records
        self.name = name
        self._stream = stream
        self._size = size

    def place(self, path: str) -> tuple[int, int]:
        """Return offset and size of a stored record; raises ValueError if it is not there so."""
        info = self.records.get(path)
        if info is None:
            raise ValueError(f"the record {path} is not in the archive")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise NotScanned("its record is compressed")
        self._stream.seek(info.header_offset)
        head = self._stream.read(30)
        if len(head) < 30 or head[:4] != MAGIC:
            raise ValueError("its record has no header where the table says")
        names, extra = struct.unpack("<26xHH", head)
        begin = info.header_offset + 30 + names + extra
        if begin + info.file_size > self._size:
            raise ValueError(
                f"its record should end at byte {begin + info.file_size:,}, but the "
                f"file has {self._size:,}"
            )
        return begin, info.file_size

    def text(self, path: str, most: int = _MOST_PICKLE_BYTES) -> bytes:
        """Return a record's content; raises ValueError if it is too large or damaged."""
        info = self.records[path]
        if most == _MOST_PICKLE_BYTES and info.file_size > most:
            raise ValueError(f"the record {path} takes {info.file_size:,} bytes")
        try:
            with self.archive.open(info) as record:
                return record.read(most)
        except _ZIP_ERRORS as error:
            raise ValueError(f"the record {path}: {error}") from None


def _torch(archive: _Archive, pickle: str) -> Layout:
    root = pickle.removesuffix("data.pkl")
    order = f"{root}byteorder"
    try:
        if order in archive.records and archive.text(order).strip() == b"big":
            raise EvidenceError(archive.name, "was written on a big-endian machine: not scanned")
        value = load(io.BytesIO(archive.text(pickle)))
    except (PickleError, ValueError) as error:
        hint = "the file is damaged, or written by something else than torch.save()"
        raise EvidenceError(
            archive.name, f"its description cannot be read: {error}", hint=hint
        ) from None
    layout = Layout()
    seen: set[tuple[object, ...]] = set()
    for name, tensor in tensors_of(value):
        key = (tensor.storage.key, tensor.dtype, tensor.offset, tensor.shape, tensor.strides)
        if key in seen:  # tied weights
            continue
        seen.add(key)
        where = f"{archive.name}: {name}"
        try:
            layout.tensors.append(_place(archive, root, name, tensor))
        except NotScanned as reason:
            layout.skip(where, str(reason))
        except ValueError as error:
            layout.damage(where, str(error))
    return layout


def _place(archive: _Archive, root: str, name: str, tensor: Tensor) -> TensorPlace:
    item = _ITEM_BYTES.get(tensor.dtype or "")
    if item is None or tensor.dtype is None:
        raise NotScanned(f"its data type {tensor.dtype} is not known here")
    begin, size = archive.place(f"{root}data/{tensor.storage.key}")
    if tensor.offset < 0 or any(n < 0 for n in (*tensor.shape, *tensor.strides)):
        raise ValueError("a size of it is negative")
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
    if 0 not in tensor.shape and (tensor.offset + last + 1) * item > size:
        raise ValueError(
            f"it reaches {(tensor.offset + last + 1) * item:,} bytes into its record of {size:,}"
        )
    return TensorPlace(
        name, tensor.dtype, tensor.shape, begin + tensor.offset * item, tensor.strides
    )


def _numpy(archive: _Archive, paths: list[str]) -> Layout:
    layout = Layout()
    for path in paths:
        where = f"{archive.name}: {path}"
        try:
            begin, size = archive.place(path)
            head = archive.text(path, _HEAD_BYTES)
            name = path.removesuffix(".npy")
            place = read_place(io.BytesIO(head), size, where, tensor=name, base=begin)
            layout.tensors.append(place)
        except NotScanned as reason:
            layout.skip(where, str(reason))
        except ValueError as error:
            layout.damage(where, str(error))
        except EvidenceError as error:
            layout.damage(error.where, error.what, error.hint)
    return layout
