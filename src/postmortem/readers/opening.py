"""Opening what the user names as a core: plain, packed, or not a core at all.

A packed core is unpacked into a private temporary file, because gdb needs a real file to map;
cores are mostly zeros, so the file is written with holes.
"""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from postmortem import underway
from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.partial import NO_ROOM
from postmortem.readers.apport import CoreOfReport, is_report
from postmortem.readers.codecs import (
    OUTPUT_BYTES,
    Readable,
    StreamError,
    beginning,
    compression_of_stream,
    decoded,
)
from postmortem.readers.formats import HEAD_BYTES, elf_head, require_core
from postmortem.readers.regular import KINDS, open_regular, unread
from postmortem.records import record
from postmortem.text import shell_word

Progress = Callable[[str], None]

_BLOCK = 4096
_ZERO_BLOCK = bytes(_BLOCK)
_ZEROS = bytes(OUTPUT_BYTES + _BLOCK)
_RESERVE = 64 << 20
"""Bytes that unpacking leaves free: other jobs may write their checkpoints there."""
_PROGRESS_SECONDS = 1.0


@record
class OpenedCore:
    """A core that can be mapped at `path` as long as the context is open."""

    path: Path
    source: Source
    problems: tuple[Problem, ...] = ()


@contextlib.contextmanager
def open_core(
    path: Path, *, temp_dir: Path | None = None, progress: Progress | None = None, gpu: bool = False
) -> Iterator[OpenedCore]:
    """Give a plain core file for the core at `path`, unpacked if need be; `gpu`: one of CUDA GPUs.

    Raises EvidenceError for what is not a core; a packed core that is cut or damaged gives what
    could be unpacked, with a Problem. `Source.size_bytes` is the size of the file as it lies
    there. For a plain core `Source.truncated` is False: only its headers can tell, and the core
    reader reads those. The unpacked copy is removed at the end, also on Ctrl-C and SIGTERM.
    """
    with contextlib.ExitStack() as undo:
        with _opened(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            head = stream.read(HEAD_BYTES)
            compression = compression_of_stream(stream, head)
            packed: Readable = stream
            if compression is None and is_report(head):
                packed, compression = _core_of_report(stream, path), "gzip"
            if compression is None:
                require_core(head, str(path), gpu=gpu)
                opened = OpenedCore(path, Source(str(path), size))
            else:
                import shutil  # it takes 5 ms to import, and most cores are not packed

                undo.enter_context(terminations_unwind())
                folder = _private_folder(path, temp_dir, size)
                undo.callback(shutil.rmtree, folder, ignore_errors=True)
                if packed is stream:
                    stream.seek(0)
                problem = _unpack(packed, compression, path, folder / "core", progress, gpu=gpu)
                source = Source(str(path), size, compression, truncated=problem is not None)
                opened = OpenedCore(folder / "core", source, (problem,) if problem else ())
        yield opened


def is_gpu_core(path: Path) -> bool:
    """Return whether a file, packed or not, is a core dump of CUDA GPUs."""
    try:
        if not path.is_file():
            return False
        with open_regular(path) as stream:
            head, _ = beginning(stream)
    except (OSError, StreamError):
        return False
    elf = elf_head(head)
    return elf is not None and elf.is_gpu_core


def _core_of_report(stream: BinaryIO, path: Path) -> CoreOfReport:
    found = CoreOfReport(stream)
    if not found.find():
        what = "a crash report of apport without a core in it"
        hint = (
            "apport leaves out cores that are too big for the free memory; a second copy "
            "may lie in /var/lib/apport/coredump or in the working directory of the process"
        )
        raise EvidenceError(str(path), f"not a core file: {what}", hint=hint)
    return found


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file; a FIFO or a device is refused before it can block."""
    where = str(path)
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
        if kind == stat.S_IFDIR:
            named = shell_word(where)
            hint = f"postmortem core {named} (with nothing else) takes the newest core in it"
            raise EvidenceError(where, "is a directory", hint=hint)
        if kind != stat.S_IFREG:
            what = f"is {KINDS.get(kind, 'not a regular file')}, not a core file"
            hint = "write it to a file first; gdb and postmortem need to seek in it"
            raise EvidenceError(where, what, hint=hint)
        stream = open_regular(path)
    except OSError as error:
        raise _cannot_open(path, error) from error
    with stream:
        try:
            yield stream
        except OSError as error:
            if error.errno not in (errno.EIO, errno.ESTALE):
                raise
            hint = "copy the core to a local disk and try again"
            raise EvidenceError(where, f"cannot be read: {error.strerror}", hint=hint) from error


def _cannot_open(path: Path, error: OSError) -> EvidenceError:
    where = str(path)
    hint = None
    if error.errno == errno.ENOENT and not path.is_symlink():
        hint = _near_names(path)
    if error.errno in (errno.EACCES, errno.EPERM):
        named = shell_word(where)
        hint = f"it belongs to another user: sudo cat {named} > mycore; postmortem core mycore"
    return EvidenceError(where, unread(error), hint=hint)


def _near_names(path: Path) -> str:
    parent = path.parent
    if not parent.is_dir():
        return f"the folder {parent} does not exist either"
    named = shell_word(str(parent))
    return f"postmortem core {named} takes the newest core in that folder, if there is one"


@contextlib.contextmanager
def terminations_unwind() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the program through its `finally` clauses meanwhile.

    A batch system ends a job with SIGTERM; by default Python then leaves the unpacked core, which
    may be many GB, behind.
    """
    import signal  # late, as shutil: most cores are not packed
    import threading

    replaced: list[signal.Signals] = []

    def unwind(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, unwind)
                replaced.append(number)
    try:
        yield
    finally:
        for taken in replaced:
            signal.signal(taken, signal.SIG_DFL)


def _private_folder(path: Path, temp_dir: Path | None, packed_size: int) -> Path:
    """Make a folder only we can read, where the unpacked core has the best chance to fit."""
    import shutil
    import tempfile

    failures: list[str] = []
    for candidate in _candidates(path, temp_dir):
        try:
            usage = shutil.disk_usage(candidate)
            # some FUSE and 9p mounts report a size of 0: then only trying tells
            if usage.total and usage.free < packed_size:
                failures.append(f"{candidate}: {usage.free >> 20:,} MiB free")
                continue
            folder = tempfile.mkdtemp(prefix="postmortem-", dir=candidate)
            underway.leave(folder)
            return Path(folder)
        except OSError as error:
            failures.append(f"{candidate}: {error.strerror}")
    what = "no place to unpack the core: " + "; ".join(failures)
    hint = "name a folder with room for the unpacked core: --temp-dir DIR"
    raise EvidenceError(str(path), what, hint=hint)


def _candidates(path: Path, temp_dir: Path | None) -> Iterator[Path]:
    if temp_dir is not None:
        yield temp_dir
        return
    if chosen := os.environ.get("TMPDIR"):
        yield Path(chosen)
    yield path.resolve().parent
    import tempfile

    with contextlib.suppress(FileNotFoundError):  # not one that can be written
        yield Path(tempfile.gettempdir())


def _unpack(
    stream: Readable,
    compression: str,
    path: Path,
    target: Path,
    progress: Progress | None,
    *,
    gpu: bool,
) -> Problem | None:
    """Unpack into a file with holes; returns what was wrong with the stream, if anything was."""
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    out = _SparseFile(descriptor)
    error: StreamError | None = None
    told = time.monotonic()
    try:
        try:
            for piece in decoded(stream, compression):
                out.write(piece)
                if progress and time.monotonic() - told > _PROGRESS_SECONDS:
                    told = time.monotonic()
                    progress(f"unpacking {path.name}: {out.size >> 20:,} MiB")
        except StreamError as stopped:
            error = stopped
        out.finish()
        head = os.pread(descriptor, HEAD_BYTES, 0)
    except OSError as failure:
        raise _cannot_write(path, target, out.size, failure) from failure
    finally:
        os.close(descriptor)
    if error is not None and len(head) < 64:
        raise EvidenceError(str(path), f"{error}; it gave {len(head)} bytes, too few for a core")
    require_core(head, str(path), packed_as=compression, gpu=gpu)
    if error is None:
        return None
    remedy = "copy the core again if the original is whole; a full disk cuts cores"
    return Problem(str(path), f"{error}; the {out.size:,} bytes before it are used", remedy)


def _cannot_write(path: Path, target: Path, size: int, failure: OSError) -> EvidenceError:
    folder = target.parent.parent
    reason = NO_ROOM.get(failure.errno or 0)
    if reason is not None:
        what = f"unpacking it into {folder} stopped after {size >> 20:,} MiB: {reason}"
        hint = "name a folder with more room: --temp-dir DIR"
        return EvidenceError(str(path), what, hint=hint)
    return EvidenceError(str(path), f"unpacking it into {folder} failed: {failure.strerror}")


def _free(descriptor: int) -> int:
    usage = os.fstatvfs(descriptor)
    return usage.f_bavail * usage.f_frsize


class _SparseFile:
    """Writes a stream at a descriptor, leaving blocks of zeros out."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending = b""
        self._stored = 0
        self._reserve = min(_RESERVE, _free(descriptor) // 20)
        self.size = 0
        """Bytes taken so far."""

    def write(self, data: bytes) -> None:
        """Take the next piece; whole blocks go out at once."""
        offset = self.size - len(self._pending)
        self.size += len(data)
        data = self._pending + data if self._pending else data
        whole = len(data) - len(data) % _BLOCK
        self._pending = data[whole:]
        run_start: int | None = None
        if _ZEROS.startswith(data):
            return
        for at in range(0, whole, _BLOCK):
            if data[at : at + _BLOCK] == _ZERO_BLOCK:
                if run_start is not None:
                    self._put(data[run_start:at], offset + run_start)
                run_start = None
            elif run_start is None:
                run_start = at
        if run_start is not None:
            self._put(data[run_start:whole], offset + run_start)

    def finish(self) -> None:
        """Write the rest and give the file its full size."""
        self._put(self._pending, self.size - len(self._pending))
        os.ftruncate(self._descriptor, self.size)

    def _put(self, data: bytes, offset: int) -> None:
        self._stored += len(data)
        if self._stored > _RESERVE // 2:
            self._stored = 0
            if _free(self._descriptor) < self._reserve:
                raise OSError(errno.ENOSPC, "no space left but a reserve")
        view = memoryview(data)
        while view:
            count = os.pwrite(self._descriptor, view, offset)
            view, offset = view[count:], offset + count


def is_packed(path: Path) -> bool:
    """Return whether a file has to be unpacked before it can be read."""
    try:
        with open_regular(path) as stream:
            return compression_of_stream(stream, stream.read(HEAD_BYTES)) is not None
    except (OSError, EvidenceError):
        return False
