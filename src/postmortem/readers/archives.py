"""Archives of evidence: unpacked into a folder of our own, within limits, regular files alone."""

import contextlib
import errno
import lzma
import os
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Self, TypeAlias, cast

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.readers.codecs import StreamError, compression_of_stream, decoded
from postmortem.readers.formats import HEAD_BYTES
from postmortem.readers.regular import open_regular

MOST_FILES = 20_000
MOST_BYTES = 16 << 30
_MOST_ENTRIES = 10 * MOST_FILES
BYTES_EACH = 1000
"""Of what is unpacked for one that an archive holds, beside `LEAST_BYTES`; of logs 30 are many."""
LEAST_BYTES = 256 << 20
_PIECE = 1 << 20
_NOT_OF_TARFILE = ("zstd", "lz4")
_ZEROS = bytes(_PIECE)
_MORE_HEADERS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
Extents: TypeAlias = Sequence[tuple[int, int]]
"""Offset and size of what a file holds; the rest of it are holes."""
_NO_NAME = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL)


class Room:
    """What may be unpacked yet, of all archives of one analysis."""

    def __init__(self, folder: Path) -> None:
        usage = os.statvfs(folder)
        self.bytes = min(MOST_BYTES, usage.f_bavail * usage.f_frsize // 2)
        self.files = MOST_FILES


class _Entry(tarfile.TarInfo):
    """A header of a tar; one that says that gigabytes of headers follow is damaged."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Return the header; raises tarfile.ReadError."""
        found = super().frombuf(buf, encoding, errors)
        if found.type in _MORE_HEADERS and found.size > _PIECE:
            raise tarfile.ReadError(f"a header of {found.size:,} bytes")
        return found


def unpack(path: str, target: Path, room: Room) -> list[Problem]:
    """Unpack the files of a tar or zip archive below `target`; return what was left out and why.

    Names cannot leave `target`; links, devices and archives' owners are not made. Sizes are those
    that come out, not those that a header claims; holes are none.
    """
    problems: list[Problem] = []
    unnamed = 0
    kept_back = 0
    try:
        holds = os.stat(path).st_size  # noqa: PTH116  a name may hold any bytes
        kept_back = max(0, room.bytes - LEAST_BYTES - BYTES_EACH * holds)
        room.bytes -= kept_back
        for count, (name, stream, extents, changed) in enumerate(_entries(path, room.bytes)):
            if stream is None and count < _MOST_ENTRIES:
                continue
            room.files -= 1
            if room.files < 0 or count >= _MOST_ENTRIES:
                problems.append(Problem(path, f"holds more than {MOST_FILES:,} files"))
                break
            try:
                written = _write(name, cast(BinaryIO, stream), extents, target, room)
                if written is not None and changed:
                    _change(written, changed)
            except ValueError:  # a NUL in its name
                unnamed += 1
            except OSError as error:
                if error.errno not in _NO_NAME:
                    raise
                unnamed += 1
            if room.bytes <= 0:
                what = "is larger than what may be unpacked here; what came first is used"
                problems.append(Problem(path, what, "unpack it where there is room: tar -xf"))
                break
    except (OSError, EOFError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
        problems.append(Problem(path, f"cannot be unpacked whole: {error}"))
    except (RuntimeError, NotImplementedError, OverflowError, LookupError) as error:
        # zipfile: a password, a new method; tarfile: a hole larger than any file, a cut list
        problems.append(Problem(path, f"cannot be unpacked: {error}"))
    except (lzma.LZMAError, zlib.error, EvidenceError) as error:
        problems.append(Problem(path, f"cannot be unpacked whole: {error}"))
    room.bytes += kept_back
    if unnamed:
        what = f"{unnamed:,} of its files left out: their names occur twice, or cannot be used"
        problems.append(Problem(path, what))
    return problems


def _change(written: Path, changed: float) -> None:
    """Give a file the time of its last change, which tells runs apart; none that is strange."""
    with contextlib.suppress(OSError, OverflowError, ValueError):
        os.utime(written, (changed, changed))


def _write(entry: str, stream: BinaryIO, extents: Extents, target: Path, room: Room) -> Path | None:
    parts = [p for p in PurePosixPath(entry).parts if p not in ("/", "..", ".")]
    if not parts:
        return None
    name = target.joinpath(*parts[-12:])
    name.parent.mkdir(parents=True, exist_ok=True)
    with name.open("xb") as out:
        for offset, size in extents or ((0, sys.maxsize),):
            if offset:
                out.seek(stream.seek(offset))
            while room.bytes > 0 and (piece := stream.read(min(size, room.bytes, _PIECE))):
                room.bytes -= len(piece)
                size -= len(piece)
                if _ZEROS.startswith(piece):  # a bomb is made of little else: no disk for it
                    out.seek(len(piece), os.SEEK_CUR)
                else:
                    out.write(piece)
        out.truncate()
    return name


@contextlib.contextmanager
def _unpacked(file: BinaryIO, most: int) -> Iterator[BinaryIO]:
    """Give a tar as tarfile reads it: out of what it knows no decoder for, up to a cut."""
    packed = compression_of_stream(file, file.read(HEAD_BYTES))
    file.seek(0)
    if packed not in _NOT_OF_TARFILE:
        yield file
        return
    with tempfile.TemporaryFile() as plain:
        with contextlib.suppress(StreamError):
            for piece in decoded(file, packed):
                most -= plain.write(piece)
                if most < 0:
                    break
        plain.seek(0)
        yield cast(BinaryIO, plain)


def _entries(path: str, most: int) -> Iterator[tuple[str, object, Extents, float]]:
    """Yield names with a stream of the bytes, None for what is not a regular file, and their times.

    Where the archive says what a file with holes holds, that comes with it.
    """
    with open_regular(path) as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                for info in archive.infolist():
                    if info.is_dir() or (info.external_attr >> 28) not in (0, 0o10):
                        yield info.filename, None, (), 0.0
                        continue
                    with archive.open(info) as stream:
                        yield info.filename, stream, (), _when(info.date_time)
            return
        file.seek(0)
        # Members come in their order, so that nothing is unpacked twice. No "r|*": where a member's
        # end is claimed to lie behind that of the archive, tarfile would look for it for ever.
        with (
            _unpacked(file, most) as plain,
            tarfile.open(fileobj=plain, mode="r:*", tarinfo=_Entry) as tar,
        ):
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                extents = cast(Extents, member.sparse or ())
                yield member.name, content, extents, float(member.mtime)
                tar.members.clear()  # type: ignore[attr-defined]  # it would keep all of them


def _when(said: Sequence[int]) -> float:
    """Return the time that a zip archive says, which knows no zone, as that of this machine."""
    year, month, day, hour, minute, second = said
    try:
        return time.mktime((year, month, day, hour, minute, second, 0, 0, -1))
    except (OverflowError, ValueError):
        return 0.0
