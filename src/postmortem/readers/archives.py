"""Archives of evidence: unpacked into a folder of our own, within limits, regular files alone."""

import errno
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from postmortem.facts.source import Problem
from postmortem.readers.regular import open_regular

MOST_FILES = 20_000
MOST_BYTES = 16 << 30
_MOST_ENTRIES = 10 * MOST_FILES
_PIECE = 1 << 20
_ZEROS = bytes(_PIECE)
_NO_NAME = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL)


class Room:
    """What may be unpacked yet, of all archives of one analysis."""

    def __init__(self, folder: Path) -> None:
        usage = os.statvfs(folder)
        self.bytes = min(MOST_BYTES, usage.f_bavail * usage.f_frsize // 2)
        self.files = MOST_FILES


def unpack(path: str, target: Path, room: Room) -> list[Problem]:
    """Unpack the files of a tar or zip archive below `target`; return what was left out and why.

    Names cannot leave `target`; links, devices and archives' owners are not made. Sizes are those
    that come out, not those that a header claims.
    """
    problems: list[Problem] = []
    unnamed = 0
    try:
        for count, (name, stream) in enumerate(_entries(path)):
            if stream is None and count < _MOST_ENTRIES:
                continue
            room.files -= 1
            if room.files < 0 or count >= _MOST_ENTRIES:
                problems.append(Problem(path, f"holds more than {MOST_FILES:,} files"))
                break
            try:
                _write(name, cast(BinaryIO, stream), target, room)
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
    except (RuntimeError, NotImplementedError) as error:  # zipfile: a password, a new method
        problems.append(Problem(path, f"cannot be unpacked: {error}"))
    except (lzma.LZMAError, zlib.error) as error:
        problems.append(Problem(path, f"cannot be unpacked whole: {error}"))
    if unnamed:
        what = f"{unnamed:,} of its files are left out: by name they are there twice, or cannot be"
        problems.append(Problem(path, what))
    return problems


def _write(entry: str, stream: BinaryIO, target: Path, room: Room) -> None:
    parts = [p for p in PurePosixPath(entry).parts if p not in ("/", "..", ".")]
    if not parts:
        return
    name = target.joinpath(*parts[-12:])
    name.parent.mkdir(parents=True, exist_ok=True)
    with name.open("xb") as out:
        while room.bytes > 0 and (piece := stream.read(_PIECE)):
            piece = piece[: room.bytes]
            room.bytes -= len(piece)
            if _ZEROS.startswith(piece):  # a bomb is made of little else: no disk for it
                out.seek(len(piece), os.SEEK_CUR)
            else:
                out.write(piece)
        out.truncate()


def _entries(path: str) -> Iterator[tuple[str, object]]:
    """Yield names with a stream of the bytes, None for what is no regular file."""
    with open_regular(path) as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                for info in archive.infolist():
                    if info.is_dir() or (info.external_attr >> 28) not in (0, 0o10):
                        yield info.filename, None
                        continue
                    with archive.open(info) as stream:
                        yield info.filename, stream
            return
        file.seek(0)
        # A stream: an archive is read once, from its beginning.
        with tarfile.open(fileobj=file, mode="r|*") as tar:
            for member in tar:
                yield member.name, tar.extractfile(member) if member.isreg() else None
                tar.members.clear()  # type: ignore[attr-defined]  # it would keep all of them
