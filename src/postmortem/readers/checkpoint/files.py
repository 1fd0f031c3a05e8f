"""Which files of a checkpoint hold tensors, and what lies where in one of them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.facts.tensors import TensorPlace
from postmortem.readers.below import files_below
from postmortem.readers.checkpoint import (
    archives,
    distributed,
    foreign,
    gguf,
    indexes,
    legacy,
    numpy_files,
    plain,
    safetensors,
)
from postmortem.readers.checkpoint.layout import Layout, NotScanned
from postmortem.readers.formats import compression_of
from postmortem.readers.regular import is_regular, open_regular, unread
from postmortem.records import record
from postmortem.text import shell_word

_SUFFIXES = (
    ".safetensors",
    ".pt",
    ".pth",
    ".bin",
    ".ckpt",
    ".pt2",
    ".npy",
    ".npz",
    distributed.SUFFIX,
    gguf.SUFFIX,
)
_HEAD_BYTES = 4096


@record
class Places:
    """The tensors of one file."""

    path: str
    size_bytes: int
    tensors: tuple[TensorPlace, ...]
    problems: tuple[Problem, ...] = ()
    damaged: bool = False
    """Whether a problem says that the file is not as it was written."""
    nan_numbers: tuple[str, ...] = ()


def find_files(names: Iterable[str]) -> tuple[list[str], list[Problem]]:
    """Return the files that are meant: each one named, those of a folder, the shards of an index.

    Raises EvidenceError if nothing is left.
    """
    found: dict[str, None] = {}
    problems: list[Problem] = []
    named = list(names)
    for name in named:
        path = Path(name)
        if path.is_dir():
            entries = [Path(one) for one in files_below(name, problems, lambda _: True)]
            named_so = [entry for entry in entries if entry.name.endswith(_SUFFIXES)]
            inside = sorted(str(entry) for entry in named_so if is_regular(entry))
            problems += _broken_links(named_so)
            for entry in sorted(entries):
                if entry.name.endswith(indexes.SUFFIX):
                    problems += indexes.missing_shards(str(entry))
                if entry.name == distributed.METADATA:
                    problems += distributed.missing(str(entry))
            if not inside:
                other = foreign.folder(path)
                what = other or f"holds no file named {', '.join(_SUFFIXES)}"
                problems.append(Problem(name, what, foreign.HINT if other else None))
            found.update(dict.fromkeys(inside))
        elif path.name == distributed.METADATA:
            found.update(dict.fromkeys(map(str, distributed.find_shards(name)[0])))
            problems += distributed.missing(name)
        elif name.endswith(indexes.SUFFIX):
            shards = indexes.shards(name)
            found.update(dict.fromkeys(str(shard) for shard in shards if shard.exists()))
            problems += indexes.missing_shards(name)
        else:
            found[name] = None
    if not found:
        first = problems[0] if problems else Problem("postmortem scan", "no file was named")
        raise EvidenceError(first.where, first.what, hint=first.remedy)
    return list(found), problems


def _broken_links(entries: Iterable[Path]) -> Iterator[Problem]:
    """Yield the links that lead nowhere, as in a cache of downloads that lost its blobs."""
    for entry in sorted(entries):
        if entry.is_symlink() and not entry.exists():
            to = os.readlink(entry)  # noqa: PTH115 - as the link says
            what = f"is a link to {to}, which is not there"
            yield Problem(str(entry), what, "download or copy it again")


def read_places(path: str) -> Places:
    """Return where the tensors of a file lie; raises EvidenceError if it cannot be read."""
    try:
        opened = open_regular(path)
    except OSError as error:
        raise EvidenceError(path, unread(error)) from None
    with opened as stream:
        status = os.fstat(stream.fileno())
        try:
            layout = _read(stream, status.st_size, path)
        except OSError as error:
            raise EvidenceError(path, unread(error)) from None
        tensors = tuple(sorted(layout.tensors, key=lambda place: place.offset))
        return Places(
            path,
            status.st_size,
            tensors,
            tuple(layout.problems),
            layout.damaged,
            tuple(layout.nan_numbers),
        )


def _read(stream: BinaryIO, size: int, path: str) -> Layout:
    head = stream.read(_HEAD_BYTES)
    stream.seek(0)
    answer = foreign.no_download(head)
    if answer is not None:
        raise EvidenceError(path, answer, hint=foreign.FETCH_HINT)
    if path.endswith(distributed.SUFFIX) and head:
        return distributed.read_places(stream, size, path)
    if head.startswith(archives.MAGIC) or head.startswith(b"PK\x05\x06"):
        return archives.read_places(stream, size, path)
    if head.startswith(numpy_files.MAGIC):
        name = Path(path).stem
        try:
            return Layout([numpy_files.read_place(stream, size, path, tensor=name)])
        except NotScanned as reason:
            raise EvidenceError(path, str(reason)) from None
    if head.startswith(gguf.MAGIC):
        return gguf.read_places(stream, size, path)
    if legacy.is_legacy(head):
        return legacy.read_places(stream, size, path)
    if not head:
        raise EvidenceError(path, "is empty")
    if not head.strip(b"\0"):
        what = f"begins with {len(head):,} zero bytes: it was given its size and never written"
        raise EvidenceError(path, what, hint="go back to the checkpoint before it")
    words = foreign.text(head)
    if words is not None:
        log = path.endswith((".log", ".txt", ".out", ".err"))
        hint = f"of a log: postmortem logs {shell_word(path)}" if log else foreign.FETCH_HINT
        raise EvidenceError(path, words, hint=hint)
    if path.endswith(".safetensors") or safetensors.looks_like_safetensors(head):
        return safetensors.read_places(stream, size, path)
    packing = compression_of(head)
    if packing is not None:
        raise EvidenceError(path, f"is compressed ({packing})", hint="unpack it, then scan it")
    if foreign.is_tar(head):
        raise EvidenceError(path, "is a tar archive: not scanned", hint=foreign.TAR_HINT)
    other = foreign.file(path, head)
    if other is not None:
        raise EvidenceError(path, other, hint=foreign.HINT)
    if plain.looks_like_pickle(head):
        return plain.read_places(stream, size, path)
    raise EvidenceError(
        path,
        "is not a checkpoint that can be scanned",
        hint="known are .safetensors, what torch.save() and torch.distributed.checkpoint write, "
        ".pt2, .npy, .npz and .gguf",
    )
