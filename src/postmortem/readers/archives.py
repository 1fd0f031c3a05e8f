"""Archives of evidence: unpacked into a folder of our own, within limits, regular files alone."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from postmortem.facts.source import Problem
from postmortem.readers.regular import open_regular
from postmortem.records import record

MOST_FILES = 20_000
MOST_BYTES = 16 << 30
_PIECE = 1 << 20


@record
class _Entry:
    name: str
    size: int
    opened: object
    """A stream of its bytes."""


def unpack(path: str, target: Path) -> list[Problem]:
    """Unpack the files of a tar or zip archive below `target`; return what was left out and why.

    Names cannot leave `target`; links, devices and archives' owners are not made. Sizes are those
    that come out, not those that a header claims.
    """
    problems: list[Problem] = []
    left, count = _room(target), 0
    try:
        for entry in _entries(path):
            count += 1
            if count > MOST_FILES:
                problems.append(Problem(path, f"holds more than {MOST_FILES:,} files"))
                break
            parts = [p for p in PurePosixPath(entry.name).parts if p not in ("/", "..", ".")]
            if not parts:
                continue
            name = target.joinpath(*parts[-12:])
            try:
                name.parent.mkdir(parents=True, exist_ok=True)
                with name.open("xb") as out:
                    left = _copy(cast(BinaryIO, entry.opened), out, left)
            except FileExistsError:
                continue
            if left <= 0:
                what = "is larger than what may be unpacked here; what came first is used"
                problems.append(Problem(path, what, "unpack it where there is room: tar -xf"))
                break
    except (OSError, EOFError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
        problems.append(Problem(path, f"cannot be unpacked whole: {error}"))
    except (RuntimeError, NotImplementedError) as error:  # zipfile: a password, a new method
        problems.append(Problem(path, f"cannot be unpacked: {error}"))
    return problems


def _room(target: Path) -> int:
    usage = os.statvfs(target)
    return min(MOST_BYTES, usage.f_bavail * usage.f_frsize // 2)


def _copy(stream: BinaryIO, out: BinaryIO, left: int) -> int:
    while left > 0 and (piece := stream.read(_PIECE)):
        out.write(piece[:left])
        left -= len(piece)
    return left


def _entries(path: str) -> Iterator[_Entry]:
    with open_regular(path) as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                for info in archive.infolist():
                    if not info.is_dir() and (info.external_attr >> 28) in (0, 0o10):
                        with archive.open(info) as stream:
                            yield _Entry(info.filename, info.file_size, stream)
            return
        file.seek(0)
        # A stream: an archive is read once, from its beginning.
        with tarfile.open(fileobj=file, mode="r|*") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is not None:
                    yield _Entry(member.name, member.size, content)
