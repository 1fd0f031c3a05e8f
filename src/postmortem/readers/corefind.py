"""Finding cores: the newest one in a folder, or the one that a process has just left."""

import glob
import os
import re
import shutil
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from postmortem.errors import EvidenceError
from postmortem.facts.machine import CoreDestination, CorePattern
from postmortem.knowledge.record_hint import CORES_AS_FILES
from postmortem.patterns import Pattern
from postmortem.readers.answers import answer_of
from postmortem.readers.apport import CoreOfReport, is_report
from postmortem.readers.codecs import StreamError, compression_of_stream, decoded
from postmortem.readers.corepattern import container_kind, destination, file_glob, read_core_pattern
from postmortem.readers.formats import ELF_HEADER_BYTES, HEAD_BYTES, elf_head, require_core
from postmortem.readers.regular import open_regular
from postmortem.records import record
from postmortem.text import counted, more, shell_word

_NAME = Pattern(
    r"(core|core[.-].+|.+\.core|coredump|CoreDump|vgcore\..+)(\.(zst|zstd|lz4|gz|xz|bz2))?"
)
_SOURCE_CODE = Pattern(r".*\.(py|pyc|pyi|c|cc|cpp|h|hpp|js|ts|txt|md|rst|json|yaml|log|html)")
_ABRT = ("coredump", "executable")
_MOST_FILES = 20_000
_MOST_ODD_NAMES = 2_000
_MOST_LISTED = 5
_CLOCK_SLACK = 2.0
"""Seconds that file times may lie before the clock's (coarse kernel clock, network drives)."""


@record
class FoundCore:
    """The newest core of a folder."""

    path: Path
    others: int
    """How many more cores lie there."""
    skipped: tuple[tuple[Path, str], ...] = ()
    """Newer files with the name of a core that are none or cannot be read, and why."""


@record
class CoreSearch:
    """What came of looking for the core of one process."""

    path: Path | None
    destination: CoreDestination
    why: str | None = None
    """Why there is none."""
    hint: str | None = None
    """The command that helps."""


def newest_core(folder: Path) -> FoundCore:
    """Return the newest core among the files of a folder.

    Not of its sub-folders, but for those of ABRT, which makes one for each crash, with the core
    under the name ``coredump`` and the program's under ``executable``.
    Newest by modification time, then by name; by content, so that ``core.py`` is none. Raises
    EvidenceError when there is none, saying what is there instead.
    """
    files = _regular_files(folder)
    found: Path | None = None
    others = 0
    skipped: list[tuple[Path, str]] = []
    odd_names = 0
    for path in files:
        if not named_like_core(path):
            # a folder of a data set may hold a hundred thousand files on a slow network drive
            odd_names += 1
            if odd_names > _MOST_ODD_NAMES:
                continue
        problem = core_problem(path)
        if problem is None:
            others += found is not None
            found = found or path
        elif found is None and problem:
            skipped.append((path, problem))
    if found is None:
        raise _no_core(folder, len(files), skipped)
    return FoundCore(found, others, tuple(skipped))


def _regular_files(folder: Path) -> list[Path]:
    """Return the regular files of a folder, newest first."""
    rows: list[tuple[int, list[int | str], Path]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except OSError:  # a dangling link, or removed meanwhile
                    continue
                path = Path(entry.path)
                if stat.S_ISDIR(status.st_mode) and (path / _ABRT[1]).is_file():
                    path = path / _ABRT[0]
                    try:
                        status = path.stat()
                    except OSError:
                        continue
                if stat.S_ISREG(status.st_mode):
                    rows.append((status.st_mtime_ns, _natural(entry.name), path))
    except OSError as error:
        raise EvidenceError(str(folder), f"cannot list the folder: {error.strerror}") from error
    rows.sort(key=lambda row: row[:2], reverse=True)
    return [path for _, _, path in rows[:_MOST_FILES]]


def _natural(name: str) -> list[int | str]:
    """Return a sort key by which core.10 comes after core.9; texts and numbers alternate."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name))]


def named_like_core(path: Path) -> bool:
    return _NAME.fullmatch(path.name) is not None and not _SOURCE_CODE.fullmatch(path.name)


def core_problem(path: Path) -> str | None:
    """Return None for a core, "" for a file that nobody would take for one, else what it is."""
    named_so = named_like_core(path)
    apport = path.suffix == ".crash"
    try:
        with open_regular(path) as stream:
            if not named_so and not apport:
                elf = elf_head(stream.read(64))
                return None if elf is not None and elf.is_core else ""
            head = stream.read(HEAD_BYTES)
            if is_report(head):
                report = CoreOfReport(stream)
                return None if report.find() else "a crash report of apport without a core in it"
            compression = compression_of_stream(stream, head)
            if compression is not None:
                stream.seek(0)
                head = b""
                for piece in decoded(stream, compression):
                    head += piece
                    if len(head) >= ELF_HEADER_BYTES:
                        break
            require_core(head, str(path), packed_as=compression)
    except EvidenceError as error:
        elf = elf_head(head)
        # a core of another machine is still the newest core: opening it says what it is
        return None if elf is not None and elf.is_core else error.what
    except StreamError as error:
        return str(error)
    except OSError as error:
        return (error.strerror or str(error)) if named_so else ""
    return None


def _no_core(folder: Path, files: int, skipped: list[tuple[Path, str]]) -> EvidenceError:
    what = (
        f"no core among its {counted(files, 'file')}"
        if files
        else "no core: the folder has no files"
    )
    if skipped:
        named = "; ".join(f"{path.name}: {why}" for path, why in skipped[:_MOST_LISTED])
        what += f" ({named}{more(len(skipped) - _MOST_LISTED, '; and {} more')})"
    taker = destination(read_core_pattern(), container=container_kind())
    hint = f"on this machine cores go to {taker.words}; `postmortem doctor` says what is missing"
    if not files and not skipped and _has_folders(folder):
        named = shell_word(str(folder))
        hint = f"postmortem core --fold {named} looks into its folders too; {hint}"
    return EvidenceError(str(folder), what, hint=hint)


def _has_folders(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_dir() for entry in entries)
    except OSError:
        return False


def find_core_of(
    pid: int,
    *,
    started_at: float,
    cwd: Path,
    command: str | None = None,
    wait_seconds: float = 15.0,
    copy_to: Path | None = None,
    root: Path = Path("/"),
) -> CoreSearch:
    """Return the core of a process that has just died, wherever the kernel put it.

    `started_at` is its start in seconds since the epoch: older files are not its core. Crash
    handlers store the core after the process is gone, so those are waited for; `copy_to` is a
    folder into which coredumpctl may write a core that we may not read in place. `root` is the
    folder that holds the handlers' folders and /proc.
    """
    pattern = read_core_pattern(root / "proc")
    taker = destination(pattern, container=container_kind(root))
    if taker.handler == "file":
        path = _from_pattern(pattern, pid, started_at, cwd, command)
        return _search_result(path, taker, pid)
    # apport and ABRT write a second copy into the working directory when the limit admits it
    deadline = time.monotonic() + (wait_seconds if taker.reachable else 0.0)
    while True:
        path = _from_handler(taker.handler, pid, started_at, cwd, root)
        if path is None and taker.handler == "systemd" and taker.reachable:
            path = _from_coredumpctl(pid, copy_to)
        if path is not None or time.monotonic() >= deadline:
            return _search_result(path, taker, pid)
        time.sleep(0.2)


def _from_pattern(
    pattern: CorePattern, pid: int, started_at: float, cwd: Path, command: str | None
) -> Path | None:
    known = {"p": str(pid), "u": str(os.getuid()), "g": str(os.getgid()), "h": os.uname().nodename}
    if command is not None:
        known["e"] = command[:15]
    exact = file_glob(pattern, cwd, known)
    # %e is the crashing thread's name, which a program may change; the core's own pid decides
    loose = file_glob(pattern, cwd, {"p": str(pid)})
    for name in dict.fromkeys((exact, loose)):
        # glob, not Path.glob: "%e%p" makes "**", which Path.glob refuses before Python 3.13
        paths = glob.glob(name, include_hidden=True)  # noqa: PTH207
        for path in _fresh(paths, started_at):
            if core_pid(path) in (pid, None) and core_problem(path) is None:
                return path
    return None


def _from_handler(handler: str, pid: int, started_at: float, cwd: Path, root: Path) -> Path | None:
    patterns = {
        "systemd": [f"var/lib/systemd/coredump/core.*.{pid}.*"],
        "apport": [f"var/lib/apport/coredump/core.*.{pid}.*"],
        "postmortem": [f"var/lib/postmortem/cores/core.*.{pid}.*.slim*"],
        "abrt": [f"var/spool/abrt/*-{pid}/coredump", f"var/tmp/abrt/*-{pid}/coredump"],
    }
    names = [
        name
        for pattern in patterns.get(handler, [])
        for name in map(str, root.glob(pattern))
        if "/.#" not in name and not name.endswith(".tmp")
    ]
    names += [str(cwd / "core"), str(cwd / f"core.{pid}")]
    for path in _fresh(names, started_at):
        if os.access(path, os.R_OK) and core_pid(path) in (pid, None):
            return path
    return None


def _fresh(names: list[str], started_at: float) -> Iterator[Path]:
    """Yield the regular files that are not older than the process, newest first."""
    rows: list[tuple[float, str]] = []
    for name in names:
        try:
            status = Path(name).stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_mtime >= started_at - _CLOCK_SLACK:
            rows.append((status.st_mtime, name))
    for _, name in sorted(rows, reverse=True):
        yield Path(name)


def _from_coredumpctl(pid: int, copy_to: Path | None) -> Path | None:
    """Ask systemd for a core that lies in the journal or that only its ACL lets us read."""
    program = shutil.which("coredumpctl")
    if program is None or copy_to is None:
        return None
    target = copy_to / f"core.{pid}"
    command = [program, "-q", "--no-pager", f"--output={target}", "dump", f"COREDUMP_PID={pid}"]
    done = answer_of(command, seconds=60)
    if isinstance(done, str):
        return None
    if done.returncode == 0 and target.is_file() and target.stat().st_size:
        return target
    target.unlink(missing_ok=True)
    return None


def core_pid(path: Path) -> int | None:
    """Return the process id in a plain core's NT_PRPSINFO; None if it has none or is packed.

    Layout: `struct elf_prpsinfo` (linux/elfcore.h), the same on x86-64 and aarch64.
    """
    try:
        with open_regular(path) as stream:
            head = stream.read(64)
            elf = elf_head(head)
            if elf is None or not elf.is_core or elf.bits != 64 or len(head) < 64:
                return None
            (table,) = struct.unpack_from("<Q", head, 32)
            stream.seek(table)
            for _ in range(struct.unpack_from("<H", head, 56)[0]):
                kind, _, offset, *_, size = struct.unpack("<IIQQQQ", stream.read(56)[:40])
                if kind == 4:
                    stream.seek(offset)
                    return _pid_in_notes(stream.read(min(size, 64 << 10)))
    except (OSError, struct.error, OverflowError):
        return None
    return None


def _pid_in_notes(notes: bytes) -> int | None:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        start = at + 12 + (name_size + 3) // 4 * 4
        if kind == 3 and size >= 28 and start + 28 <= len(notes):
            return int(struct.unpack_from("<i", notes, start + 24)[0])
        at = start + (size + 3) // 4 * 4
    return None


def _search_result(path: Path | None, taker: CoreDestination, pid: int) -> CoreSearch:
    if path is not None:
        return CoreSearch(path, taker)
    why = f"no core of process {pid} was found; cores go to {taker.words}"
    hints = {
        "file": "ulimit -c unlimited; is the folder writable and the disk not full?",
        "systemd": f"coredumpctl list {pid}; its limits are in /etc/systemd/coredump.conf",
        "apport": f"sudo systemctl stop apport; {CORES_AS_FILES}",
        "abrt": f"abrt-cli list; or {CORES_AS_FILES}",
        "none": CORES_AS_FILES,
    }
    hint = hints.get(taker.handler, CORES_AS_FILES)
    if not taker.reachable and taker.handler not in ("file", "none"):
        hint = f"as root of the host: {CORES_AS_FILES}"
    return CoreSearch(None, taker, why, hint)
