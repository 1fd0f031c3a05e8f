"""Checkpoints of torch.distributed.checkpoint: `.metadata` and shards named `.distcp`.

A shard holds one archive of torch.save() for each part of a tensor, one behind the other.
`.metadata`, a pickle that the first rank writes at the very end, says which tensor lies where.
Source: torch/distributed/checkpoint/filesystem.py and metadata.py.
"""

import io
import mmap
import os
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import BinaryIO, cast

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.facts.tensors import Part
from postmortem.readers.checkpoint import archives
from postmortem.readers.checkpoint.layout import Layout, NotScanned, sizes
from postmortem.readers.checkpoint.objects import PickleError, Unknown
from postmortem.readers.checkpoint.pickled import load
from postmortem.readers.checkpoint.window import Window
from postmortem.readers.regular import open_regular, unread
from postmortem.records import record, replace
from postmortem.text import some

METADATA = ".metadata"
SUFFIX = ".distcp"
_MOST_METADATA_BYTES = 1 << 30
_END = b"PK\x05\x06"
_END_BYTES = 22
_NEVER_FINISHED = (
    "without .metadata, which is written last, PyTorch cannot load it: go back to the checkpoint "
    "before it"
)


@record
class Entry:
    """What `.metadata` says of one archive in a shard."""

    name: str
    file: str
    offset: int
    length: int
    part: Part | None
    """Of which tensor it is a part; None if it holds any other object."""
    extension: str | None
    """How it was transformed, such as ``zstd``; None if it was not."""


def find_shards(metadata: str) -> tuple[list[Path], list[str]]:
    """Return the files that `.metadata` names, and the names of those that are not there.

    Raises EvidenceError if it cannot be read.
    """
    folder = Path(metadata).parent
    names = sorted({entry.file for entry in _entries(metadata)})
    there = [folder / name for name in names if (folder / name).is_file()]
    return there, [name for name in names if not (folder / name).is_file()]


def read_places(stream: BinaryIO, size: int, path: str) -> Layout:
    """Return where the tensors of a shard lie."""
    metadata = str(Path(path).parent / METADATA)
    layout = Layout()
    try:
        entries = [entry for entry in _entries(metadata) if entry.file == Path(path).name]
    except EvidenceError as error:
        missing = not os.path.lexists(metadata)
        what = "is missing: its save did not finish" if missing else error.what
        layout.damage(metadata, what, _NEVER_FINISHED)
        return _without_names(layout, stream, size, path)
    for entry in entries:
        with layout.part(f"{path}: {entry.name}"):
            _read(layout, entry, stream, size, path)
    return layout


def _read(layout: Layout, entry: Entry, stream: BinaryIO, size: int, path: str) -> None:
    if entry.extension is not None:
        raise NotScanned(f"it was transformed by {entry.extension[:60]!r}")
    end = entry.offset + entry.length
    if end > size:
        raise ValueError(f"it should end at byte {end:,}, but the file has {size:,}")
    found = _archive(stream, entry.offset, entry.length, path, entry.name)
    layout.add(found)
    if entry.part is None:
        layout.tensors += found.tensors
        return
    for place in found.tensors:
        if place.shape != entry.part.shape:
            what = f"is of shape {place.shape}, but .metadata says {entry.part.shape}"
            raise ValueError(what)
        is_whole = entry.part.shape == entry.part.whole
        layout.tensors.append(place if is_whole else replace(place, part=entry.part))


def _archive(stream: BinaryIO, begin: int, length: int, path: str, name: str) -> Layout:
    window = cast(BinaryIO, Window(stream, begin, length))
    return archives.read_places(window, length, path, base=begin, within=name)


# -- metadata ---------------------------------------------------------------------------------


def _entries(metadata: str) -> tuple[Entry, ...]:
    try:
        status = os.stat(metadata)  # noqa: PTH116 - a name, as all here
        if status.st_size > _MOST_METADATA_BYTES:
            raise EvidenceError(metadata, f"{status.st_size:,} bytes are too many for it")
        return _read_entries(metadata, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise EvidenceError(metadata, unread(error)) from None


@lru_cache(maxsize=2)
def _read_entries(metadata: str, size: int, _changed: int) -> tuple[Entry, ...]:
    """Follow the pickle once for all the shards that it describes."""
    with open_regular(metadata) as stream:
        try:
            value = load(io.BytesIO(stream.read(size)))
        except PickleError as error:
            raise EvidenceError(metadata, f"cannot be followed: {error}") from None
    fields = _fields(value)
    storage, described = fields.get("storage_data"), fields.get("state_dict_metadata")
    if not isinstance(storage, dict) or not isinstance(described, dict):
        raise EvidenceError(metadata, "is not metadata of torch.distributed.checkpoint")
    found = (_entry(index, info, described) for index, info in storage.items())
    return tuple(entry for entry in found if entry is not None)


def _entry(index: object, info: object, described: dict[object, object]) -> Entry | None:
    key, place = _fields(index), _fields(info)
    name, file = key.get("fqn"), place.get("relative_path")
    offset, length = place.get("offset"), place.get("length")
    if not isinstance(name, str) or not isinstance(file, str):
        return None
    if type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
        return None
    if Path(file).name != file:  # a name that leads out of its folder is not followed
        return None
    transforms = place.get("transform_descriptors")
    extension = ", ".join(map(str, transforms)) if isinstance(transforms, list) else None
    part = _part(sizes(key.get("offset")), _fields(described.get(name)))
    return Entry(name, file, offset, length, part, extension or None)


def _part(at: tuple[int, ...] | None, described: dict[object, object]) -> Part | None:
    """Return which part of a tensor it is that begins `at`, of the chunks that are described."""
    whole, chunks = sizes(described.get("size")), described.get("chunks")
    if whole is None or prod(whole) >= 1 << 62 or not isinstance(chunks, list):
        return None
    for chunk in chunks:
        fields = _fields(chunk)
        begin, shape = sizes(fields.get("offsets")), sizes(fields.get("sizes"))
        if begin is None or shape is None or (at is not None and begin != at):
            continue
        if len(begin) == len(shape) == len(whole) and all(
            b + n <= w for b, n, w in zip(begin, shape, whole, strict=True)
        ):
            return Part(whole, begin, shape)
    return None


def _fields(value: object) -> dict[object, object]:
    state = value.state if isinstance(value, Unknown) else None
    return state if isinstance(state, dict) else {}


# -- without metadata -------------------------------------------------------------------------


def _without_names(layout: Layout, stream: BinaryIO, size: int, path: str) -> Layout:
    """Add the tensors of all archives in the file, each named by its place in it."""
    for number, (begin, length) in enumerate(_archives(stream, size)):
        name = f"archive {number} at byte {begin}"
        with layout.part(f"{path}: {name}"):
            found = _archive(stream, begin, length, path, name)
            layout.tensors += found.tensors
            layout.add(found)
    return layout


def _archives(stream: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """Yield offset and size of archives that stand one behind the other.

    The mark of an archive's end can also stand in a tensor: it counts if the archive opens.
    """
    if not size:
        return
    with mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as data:
        begin = after = 0
        while (at := data.find(_END, after)) != -1:
            end = after = at + _END_BYTES
            if end <= size and _is_archive(stream, begin, end - begin):
                yield begin, end - begin
                begin = end


def _is_archive(stream: BinaryIO, begin: int, size: int) -> bool:
    try:
        with zipfile.ZipFile(cast(BinaryIO, Window(stream, begin, size))) as archive:
            records = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return False
    return bool(records) and records[0].header_offset == 0


def missing(metadata: str) -> Iterator[Problem]:
    """Yield what of a distributed checkpoint is not there."""
    try:
        _, lost = find_shards(metadata)
    except EvidenceError as error:
        if any(Path(metadata).parent.glob(f"*{SUFFIX}")):  # else another program's file
            yield Problem(error.where, error.what, _NEVER_FINISHED)
        return
    if lost:
        what = f"names {len(lost)} shards that are not there: {some(lost, 3)}"
        yield Problem(metadata, what, "copy the checkpoint again: each rank writes shards")
