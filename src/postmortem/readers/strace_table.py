"""Every call of a log as NumPy columns: `postmortem.read_strace`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from postmortem.readers.log_lines import log_line
from postmortem.readers.strace import Beside, Question
from postmortem.readers.strace import read_strace as read_facts
from postmortem.readers.stracefind import find_logs
from postmortem.records import record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from postmortem._native import RawTables

RETURNED, JOINED, UNFINISHED, INJECTED, DELETED = 1, 2, 4, 8, 16
"""Bits of `SyscallTable.flags`."""

KINDS = ("unknown", "file", "socket", "pipe", "memfd", "device", "other")
SOURCES = ("unknown", "tracked", "annotated", "argument")


@record
class SyscallTable:
    """All calls of one or more logs, a call a row, in the order in which they ended.

    The columns are views of one read-only array that the native reader filled: no byte is
    copied. A row takes 72 bytes, whatever its line is long; both halves of an unfinished call are
    one. Texts are numbers of texts:
    ``table.syscalls[table.syscall[0]]`` is the name of the first call.

    Nothing is masked here: paths and lines may hold secrets.
    """

    rows: NDArray[Any]
    """The structured array that all columns are of."""
    syscalls: tuple[str, ...]
    errnos: tuple[str, ...]
    """Names by number; number 0 is no error."""
    targets: tuple[str, ...]
    """Paths, peers and labels by number."""
    files: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self.rows)

    @property
    def file(self) -> NDArray[np.int32]:
        """Index of the log in `files`."""
        return self._column("file")

    @property
    def line(self) -> NDArray[np.int64]:
        """Line on which a call ended, from 1; where it began if it did not end."""
        return self._column("line")

    @property
    def began_line(self) -> NDArray[np.int64]:
        """Line on which a call began; 0 if the log does not show it."""
        return self._column("began_line")

    @property
    def pid(self) -> NDArray[np.int32]:
        """The task: of a thread its own number. 0 while a log names none."""
        return self._column("pid")

    @property
    def start_ns(self) -> NDArray[np.int64]:
        """Nanoseconds since the epoch (-ttt) or midnight (-t, -tt), -1 where not told."""
        return self._column("start_ns")

    @property
    def duration_ns(self) -> NDArray[np.int64]:
        """Nanoseconds by -T, else between the two lines of a call; -1 where not told."""
        return self._column("duration_ns")

    @property
    def start(self) -> NDArray[np.float64]:
        """`start_ns` in seconds, NaN where not told. A new array."""
        return _seconds(self.start_ns)

    @property
    def duration(self) -> NDArray[np.float64]:
        """`duration_ns` in seconds, NaN where not told. A new array."""
        return _seconds(self.duration_ns)

    @property
    def syscall(self) -> NDArray[np.uint16]:
        """Index of the name in `syscalls`."""
        return self._column("syscall")

    @property
    def result(self) -> NDArray[np.int64]:
        """What a call returned; 0 without the bit `RETURNED` in `flags`."""
        return self._column("result")

    @property
    def errno(self) -> NDArray[np.uint16]:
        """Index of the error in `errnos`; 0 for none."""
        return self._column("errno")

    @property
    def fd(self) -> NDArray[np.int32]:
        """The descriptor that a call was about; -1 for none."""
        return self._column("fd")

    @property
    def target(self) -> NDArray[np.int32]:
        """Index of the path or peer in `targets`; -1 where it is unknown or there is none."""
        return self._column("target")

    @property
    def kind(self) -> NDArray[np.uint8]:
        """Index in `KINDS` of what the target is."""
        return self._column("kind")

    @property
    def source(self) -> NDArray[np.uint8]:
        """Index in `SOURCES` of how the target is known."""
        return self._column("source")

    @property
    def bytes(self) -> NDArray[np.int64]:
        """Bytes that a read or write moved, else 0."""
        return self._column("bytes")

    @property
    def flags(self) -> NDArray[np.uint8]:
        """Bits: `RETURNED`, `JOINED`, `UNFINISHED`, `INJECTED`, `DELETED`."""
        return self._column("flags")

    def named(self, syscall: str) -> NDArray[np.bool_]:
        """Return which rows are calls of this name."""
        found: NDArray[np.bool_] = self.syscall == _index(self.syscalls, syscall)
        return found

    def failed(self, errno: str | None = None) -> NDArray[np.bool_]:
        """Return which rows failed, with this errno or with any."""
        # An error without a result is a restart: ? ERESTARTSYS
        found: NDArray[np.bool_] = (self.errno != 0) & (self.flags & RETURNED != 0)
        if errno is not None:
            found = self.errno == _index(self.errnos, errno)
        return found

    def text(self, row: int) -> str:
        """Return the line or both lines of a call, read from the log again.

        The first time, the file is gone through once to know where its lines are; later ones read
        a megabyte. A packed log is unpacked each time. Raises EvidenceError if the file is gone.
        """
        call = self.rows[row]
        numbers = dict.fromkeys((int(call["began_line"]), int(call["line"])))
        name = self.files[int(call["file"])]
        return "\n".join(log_line(name, number) for number in numbers if number > 0)

    def _column(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self.rows[name]
        return column


def read_strace(path: str | os.PathLike[str] | list[str] | tuple[str, ...]) -> SyscallTable:
    """Return every call of a log, of the files of ``strace -ff``, or of all logs in a folder.

    `path` is what the command takes: a log, also packed (.gz, .zst, .xz), the prefix given to
    ``strace -ff``, a folder, or several of these. Memory: 72 bytes a call and each distinct path
    once; a log of 1 GB has 5 to 14 million calls. Raises EvidenceError when one is no log of
    strace, and ImportError without NumPy.
    """
    try:
        import numpy  # noqa: F401  the rows are its array
    except ImportError as error:
        what = "postmortem.read_strace needs NumPy: pip install numpy"
        raise ImportError(what, name="numpy") from error
    from postmortem import _native

    names = [os.fspath(path)] if isinstance(path, str | os.PathLike) else [*path]
    collected = _native.export_columns()
    for group in find_logs(names):
        read_facts(group, Question(), Beside(exports=(collected,)))
    tables: RawTables = _native.close_export(collected)
    return SyscallTable(
        tables["rows"],
        tuple(tables["syscalls"]),
        tuple(tables["errnos"]),
        tuple(tables["targets"]),
        tuple(tables["files"]),
    )


def _seconds(nanoseconds: NDArray[np.int64]) -> NDArray[np.float64]:
    import numpy

    return numpy.where(nanoseconds < 0, numpy.nan, nanoseconds / 1e9)


def _index(names: tuple[str, ...], name: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        return -1  # no row has it
