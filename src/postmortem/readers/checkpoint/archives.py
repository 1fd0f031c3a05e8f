"""Zip archives of arrays: what torch.save() and torch.export.save() write, and .npz.

A record that is stored (not deflated) lies in the file as it is, and is scanned there. Of .npz
also compressed ones are read: numpy.savez_compressed() writes them.
"""

import io
import struct
import zipfile
import zlib
from typing import BinaryIO, cast

from postmortem.errors import EvidenceError
from postmortem.readers.checkpoint import exported
from postmortem.readers.checkpoint.layout import Layout, NotScanned
from postmortem.readers.checkpoint.numpy_files import read_place
from postmortem.readers.checkpoint.objects import PickleError
from postmortem.readers.checkpoint.pickled import load
from postmortem.readers.checkpoint.storages import StoragePlace, lay
from postmortem.readers.checkpoint.window import Window
from postmortem.records import replace

MAGIC = b"PK\x03\x04"
_MOST_PICKLE_BYTES = 1 << 30
_HEAD_BYTES = 1 << 16
_MOST_EXPANSION = 1100
"""Deflate makes 1,032 bytes of one at most; bzip2 and lzma, which NumPy does not use, more."""
ZIP_ERRORS = (  # what zipfile raises for a damaged archive
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    OSError,
    RuntimeError,
    EOFError,
    ValueError,
)


def read_places(
    stream: BinaryIO, size: int, name: str, *, base: int = 0, within: str = ""
) -> Layout:
    """Return where the tensors of an archive lie; raises EvidenceError if it is no checkpoint.

    `stream` is the archive and nothing else; it begins at byte `base` of the file. `within` names
    the object that it holds.
    """
    try:
        archive = zipfile.ZipFile(stream)
    except ZIP_ERRORS as error:
        what = f"its table of records, which stands at the end, cannot be read: {error}"
        hint = "the file is cut (a full disk, a killed job): go back to the checkpoint before it"
        raise EvidenceError(name, what, hint=hint) from None
    records = {info.filename: info for info in archive.infolist()}
    pickles = [path for path in records if path == "data.pkl" or path.endswith("/data.pkl")]
    if pickles:
        return _torch(_Archive(archive, records, stream, size, name, base), pickles[0], within)
    configs = exported.configs(records)
    if configs or any(path in exported.EARLIER for path in records):
        return _exported(_Archive(archive, records, stream, size, name, base), configs)
    arrays = [path for path in records if path.endswith(".npy")]
    if arrays:
        return _numpy(_Archive(archive, records, stream, size, name, base), arrays)
    raise EvidenceError(
        name, "is a zip archive without data.pkl or .npy: no checkpoint of torch.save() or NumPy"
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
        base: int,
    ) -> None:
        self.archive = archive
        self.records = records
        self.name = name
        self._stream = stream
        self._size = size
        self._base = base

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
        return self._base + begin, info.file_size

    def is_empty(self, path: str) -> bool:
        """Return whether a record is there and has no bytes."""
        return path in self.records and not self.records[path].file_size

    def nested(self, path: str, within: str) -> Layout:
        """Return the layout of a stored record that is an archive of torch.save() itself."""
        begin, size = self.place(path)
        window = cast(BinaryIO, Window(self._stream, begin - self._base, size))
        return read_places(window, size, self.name, base=begin, within=within)

    def place_or_packed(self, path: str) -> tuple[int, int, str | None]:
        """Return offset, size and None of a stored record; 0, size and path of a packed one."""
        info = self.records.get(path)
        stored = info is None or info.compress_type == zipfile.ZIP_STORED
        if info is None or stored or info.flag_bits & 1 or self._base:
            return (*self.place(path), None)  # which says what is wrong with it
        if info.file_size > _MOST_EXPANSION * max(info.compress_size, 1):
            raise ValueError(
                f"its record of {info.compress_size:,} bytes claims to hold {info.file_size:,}"
            )
        return 0, info.file_size, path

    def text(self, path: str, most: int = _MOST_PICKLE_BYTES) -> bytes:
        """Return a record's content; raises ValueError if it is too large or damaged."""
        info = self.records[path]
        if most == _MOST_PICKLE_BYTES and info.file_size > most:
            raise ValueError(f"the record {path} takes {info.file_size:,} bytes")
        try:
            with self.archive.open(info) as record:
                return record.read(most)
        except ZIP_ERRORS as error:
            raise ValueError(f"the record {path}: {error}") from None


def _torch(archive: _Archive, pickle: str, within: str) -> Layout:
    """Lay data.pkl, and constants.pkl: where TorchScript keeps the weights of a frozen module."""
    root = pickle.removesuffix("data.pkl")
    order = f"{root}byteorder"
    try:
        if order in archive.records and archive.text(order).strip() == b"big":
            raise EvidenceError(archive.name, "was written on a big-endian machine: not scanned")
        value = load(io.BytesIO(archive.text(pickle)))
        constants = f"{root}constants.pkl"
        held = load(io.BytesIO(archive.text(constants))) if constants in archive.records else None
    except (PickleError, ValueError) as error:
        hint = "the file is damaged, or written by something else than torch.save()"
        raise EvidenceError(
            archive.name, f"its description cannot be read: {error}", hint=hint
        ) from None
    layout = Layout()
    for folder, found, name in (("data", value, within), ("constants", held, "constants")):
        lay(layout, found, archive.name, _finder(archive, f"{root}{folder}"), name)
    return layout


def _exported(archive: _Archive, configs: list[tuple[str, str]]) -> Layout:
    """Lay the weights and constants of programs, or the archives that hold them."""
    layout = Layout()
    models = {model for _, model in configs}
    nested = [(path, "") for path in exported.EARLIER if path in archive.records]
    for path, model in configs:
        folder = path.rpartition("/")[0]
        within = model if len(models) > 1 else ""
        with layout.part(f"{archive.name}: {path}"):
            tensors, pickled = exported.described(archive.text(path))
            lay(layout, tensors, archive.name, _finder(archive, folder), within)
            nested += [
                (f"{folder}/{record}", f"{within}.{name}" if within else name)
                for name, record in pickled.items()
            ]
    for path, name in nested:
        with layout.part(f"{archive.name}: {name or path}"):
            if archive.is_empty(path):  # a program without constants
                continue
            found = archive.nested(path, name)
            layout.tensors += found.tensors
            layout.add(found)
    return layout


def _finder(archive: _Archive, folder: str) -> StoragePlace:
    return lambda of: archive.place_or_packed(f"{folder}/{of.key}")


def _numpy(archive: _Archive, paths: list[str]) -> Layout:
    layout = Layout()
    for path in paths:
        where = f"{archive.name}: {path}"
        with layout.part(where):
            begin, size, packed = archive.place_or_packed(path)
            head = archive.text(path, _HEAD_BYTES)
            name = path.removesuffix(".npy")
            place = read_place(io.BytesIO(head), size, where, tensor=name, base=begin)
            layout.tensors.append(replace(place, packed=packed) if packed else place)
    return layout
