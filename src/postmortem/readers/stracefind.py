"""Which logs are meant: files, the files of `strace -ff`, folders, standard input."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from postmortem.errors import EvidenceError
from postmortem.patterns import Pattern
from postmortem.readers.codecs import StreamError, decoded
from postmortem.readers.formats import HEAD_BYTES, compression_of, elf_head
from postmortem.records import record

_PID_SUFFIX = Pattern(r"^(?P<stem>.+)\.(?P<pid>\d{1,7})(?P<packed>\.(?:gz|zst|xz|bz2|lz4))?$")
_LOOKS_LIKE = Pattern(
    r"(?m)^(?:\x1b\[\d+m)?(?:\[pid +\d+[^\]]*\] |\d+(?:<[^>]*>)? +)?"
    r"(?:\d\d:\d\d:\d\d(?:\.\d+)? |\d+\.\d+ |\(\+ *\d+\.\d+\) |\[[^\]]*\] | +\d+\.\d+ )*"
    r"(?:\x1b\[[\d;]*m)?"
    r"(?:[a-z_][a-z0-9_]{1,30}(?:\x1b\[[\d;]*m)?\(.*(?:= |<unfinished|\.\.\.>)"
    r"|<\.\.\. \w+ resumed>|\+\+\+ (?:exited|killed)|--- SIG)"
)
_FIRST_CALL = Pattern(r"(?:^|[ \]>m])(?P<name>[a-z_][a-z0-9_]{1,30})(?:\x1b\[[\d;]*m)?\(")
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive (PyTorch checkpoints are one)"),
    (b"%PDF", "a PDF document"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF", "an HDF5 file"),
    (b"Traceback (most recent call last)", "a Python traceback: postmortem logs reads those"),
    (b"{", "JSON"),
    (b"<?xml", "XML"),
    (b"#!", "a script"),
)

STANDARD_INPUT = "-"


@record
class LogGroup:
    """The files of one recording: one file, or all that `strace -ff` wrote."""

    name: str
    files: tuple[tuple[str, int], ...]
    """Path and, for files of -ff, the task that each is of (else 0)."""


def find_logs(names: Iterable[str]) -> tuple[LogGroup, ...]:
    """Return the recordings that are meant by names of files, prefixes of -ff and folders."""
    groups: dict[str, list[tuple[str, int]]] = {}
    single: list[LogGroup] = []
    for name in names:
        path = Path(name)
        if name == STANDARD_INPUT:
            single.append(LogGroup(name, ((name, 0),)))
        elif path.is_dir():
            _add_folder(path, groups)
        elif path.exists() or path.is_symlink():
            match = _PID_SUFFIX.match(name)
            if match:
                _add(groups, match["stem"], name, int(match["pid"]))
            else:
                single.append(LogGroup(name, ((name, 0),)))
        else:
            _add_prefix(path, groups)
    found = [LogGroup(stem, _once(files)) for stem, files in groups.items()]
    return (*single, *found)


def _add(groups: dict[str, list[tuple[str, int]]], stem: str, name: str, pid: int) -> None:
    groups.setdefault(stem, []).append((name, pid))


def _once(files: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(dict.fromkeys(files), key=lambda item: (item[1], item[0])))


def _add_folder(folder: Path, groups: dict[str, list[tuple[str, int]]]) -> None:
    before = len(groups)
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError as error:
        raise EvidenceError(str(folder), f"cannot be listed: {error.strerror}") from error
    for name in names:
        path = folder / name
        if not looks_like_log(_head(path)):
            continue
        match = _PID_SUFFIX.match(name)
        if match:
            _add(groups, str(folder / match["stem"]), str(path), int(match["pid"]))
        else:
            _add(groups, str(path), str(path), 0)
    if len(groups) == before:
        what = f"none of its {len(names)} files is an strace log" if names else "holds no files"
        raise EvidenceError(str(folder), what, hint="record one: strace -f -o strace.txt COMMAND")


def _add_prefix(path: Path, groups: dict[str, list[tuple[str, int]]]) -> None:
    found = False
    if path.parent.is_dir():
        for sibling in sorted(path.parent.glob(_literal(path.name) + ".*")):
            match = _PID_SUFFIX.match(sibling.name)
            if match and match["stem"] == path.name:
                _add(groups, str(path), str(sibling), int(match["pid"]))
                found = True
    if not found:
        hint = "name a log, the prefix given to strace -ff -o, or a folder with logs"
        raise EvidenceError(str(path), "no such file", hint=hint)


def _literal(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def looks_like_log(head: bytes) -> bool:
    """Return whether the beginning of a file reads as strace writes it."""
    return _LOOKS_LIKE.search(head.decode("utf-8", "replace")) is not None


def starts_with_exec(head: bytes) -> bool:
    """Return whether a log begins with the start of its program, and not in the middle (-p)."""
    for line in head.decode("utf-8", "replace").splitlines()[:20]:
        call = _FIRST_CALL.search(line)
        if call is not None:
            return call["name"].startswith("execve")
    return False


def _head(path: Path) -> bytes:
    """Return the beginning of a file, unpacked; nothing if it cannot be read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
            compression = compression_of(head)
            if compression is None:
                return head
            stream.seek(0)
            return next(decoded(stream, compression), b"")
    except (OSError, StreamError, EvidenceError):
        return b""


def likeness(head: bytes) -> str:
    """Return in words what a file is that is no strace log, by its beginning."""
    if not head.strip():
        return "empty" if not head else "blank"
    elf = elf_head(head)
    if elf is not None:
        if elf.is_core:
            return "an ELF core file: postmortem core explains those"
        return f"an ELF file for {elf.machine_name}"
    for magic, what in _FOREIGN:
        if head.lstrip().startswith(magic):
            return what
    if b"Traceback (most recent call last)" in head:
        return "a log of a program: postmortem logs reads those"
    if b"\0" in head:
        return f"binary data that start with {head[:8].hex(' ')}"
    first = head.split(b"\n", 1)[0][:60].decode("utf-8", "replace").strip()
    return f"text that starts with {first!r}"
