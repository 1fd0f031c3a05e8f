"""The clean lines of each rank in a file of its own."""

import os
from pathlib import Path

from postmortem.errors import EvidenceError
from postmortem.patterns import Pattern
from postmortem.readers.present import words_in
from postmortem.readers.ranklogs.log_names import LogFile
from postmortem.readers.ranklogs.read import RankFacts, split_rank_log
from postmortem.readers.ranklogs.sources import Found
from postmortem.report.log_text import LogMasker
from postmortem.text import counted

MARK = ".postmortem-split"
"""An empty file that says whose folder it is: only such a folder is written to again."""
_UNSAFE = Pattern(r"[^A-Za-z0-9._=-]+")
_LONGEST = 80


def own_folder(name: str) -> Path:
    """Return the folder, made if need be; raises EvidenceError where it has foreign files."""
    folder = Path(name)
    if folder.exists() and not folder.is_dir():
        raise EvidenceError(str(folder), "is not a folder", hint="name a new folder after --split")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        what = "holds files that are not from --split; nothing was written"
        raise EvidenceError(str(folder), what, hint="name a new or an empty folder after --split")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        os.close(os.open(folder / MARK, flags, 0o600))
        for old in folder.glob("*.log"):
            if old.is_symlink() or not old.is_dir():  # a link goes, what it leads to stays
                old.unlink()
    except OSError as error:
        raise EvidenceError(str(folder), f"cannot be written: {error.strerror}") from error
    return folder


def split(read: RankFacts, found: Found, folder: Path, *, redact: bool) -> str:
    """Write the lines of each writer, and return in words what was written where."""
    names = _names(read)
    written: set[str] = set()
    for file in found.logs:
        if file.path in read.labels:
            labels = [names[index] for index in read.labels[file.path]]
            _one(file, labels, folder, written, redact=redact)
    return f"{counted(len(written), 'file')} in {folder}"


def _one(file: LogFile, names: list[str], folder: Path, written: set[str], *, redact: bool) -> None:
    maskers: dict[int, LogMasker] = {}

    def sink(label: int, text: bytes) -> None:
        # A label that the first reading did not have: the file has grown meanwhile.
        name = names[label] if label < len(names) else names[0]
        if redact:
            masker = maskers.setdefault(label, LogMasker(words_in))
            text = masker.mask(text.decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        if name not in written:  # what somebody has put there meanwhile is not written to
            flags |= os.O_CREAT | os.O_EXCL
            written.add(name)
        descriptor = os.open(folder / name, flags, 0o600)
        try:
            view = memoryview(text)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)

    try:
        split_rank_log(file, sink)
    except OSError as error:
        raise EvidenceError(str(folder), f"cannot be written: {error.strerror}") from error


def _names(read: RankFacts) -> list[str]:
    """Return a file name for each writer: safe, and no two alike."""
    names: list[str] = []
    width = len(str(max((w.rank or 0 for w in read.logs.writers), default=0)))
    for writer in read.logs.writers:
        host = f"-{_safe(writer.host)}" if writer.host else ""
        if writer.rank is not None:
            name = f"rank-{writer.rank:0{width}d}{host}"
        elif writer.shared:
            name = f"unlabelled-{_safe(writer.label)}"
        else:
            name = _safe(writer.label)
        plain, number = name, 2
        while f"{name}.log" in names:
            name, number = f"{plain}-{number}", number + 1
        names.append(f"{name}.log")
    return names


def _safe(text: str) -> str:
    cleaned = _UNSAFE.sub("_", text)[:_LONGEST].lstrip(".-")
    return cleaned or "unnamed"
