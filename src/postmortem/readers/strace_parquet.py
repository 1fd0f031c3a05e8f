"""Calls of a log as a Parquet file, by pyarrow."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from postmortem.readers.strace_table import DELETED, INJECTED, KINDS, RETURNED, SOURCES, UNFINISHED

if TYPE_CHECKING:
    from postmortem._native import RawTables

_WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("file", _WORD),
        ("line", pa.int64()),
        ("began_line", pa.int64()),
        ("pid", pa.int32()),
        ("time", pa.float64()),
        ("seconds", pa.float64()),
        ("syscall", _WORD),
        ("result", pa.int64()),
        ("errno", _WORD),
        ("injected", pa.bool_()),
        ("unfinished", pa.bool_()),
        ("fd", pa.int32()),
        ("path", _WORD),
        ("kind", _WORD),
        ("deleted", pa.bool_()),
        ("source", _WORD),
        ("bytes", pa.int64()),
    ]
)
"""The columns of the other tables of calls; null where the log does not tell."""


class ParquetCalls:
    """Writes batches of rows, each with tables of texts of its own."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(os.dup(descriptor), "wb")
        self._writer = pq.ParquetWriter(self._file, SCHEMA, compression="zstd")
        self.calls = 0

    def take(self, tables: RawTables) -> None:
        """Write one batch."""
        rows = tables["rows"]
        flags = rows["flags"]
        about = (rows["target"] >= 0) | (rows["fd"] >= 0)
        columns: dict[str, Any] = {
            "file": _words(rows["file"], tables["files"], None),
            "line": _plain(rows["line"], None),
            "began_line": _plain(rows["began_line"], rows["began_line"] == 0),
            "pid": _plain(rows["pid"], None),
            "time": _plain(rows["start_ns"] / 1e9, rows["start_ns"] < 0),
            "seconds": _plain(rows["duration_ns"] / 1e9, rows["duration_ns"] < 0),
            "syscall": _words(rows["syscall"], tables["syscalls"], None),
            "result": _plain(rows["result"], flags & RETURNED == 0),
            "errno": _words(rows["errno"], tables["errnos"], rows["errno"] == 0),
            "injected": _plain(flags & INJECTED != 0, None),
            "unfinished": _plain(flags & UNFINISHED != 0, None),
            "fd": _plain(rows["fd"], rows["fd"] < 0),
            "path": _words(rows["target"], tables["targets"], rows["target"] < 0),
            "kind": _words(rows["kind"], KINDS, ~about),
            "deleted": _plain(flags & DELETED != 0, ~about),
            "source": _words(rows["source"], SOURCES, ~about),
            "bytes": _plain(rows["bytes"], None),
        }
        arrays = [columns[field.name] for field in SCHEMA]
        self._writer.write_batch(pa.record_batch(arrays, schema=SCHEMA))
        self.calls += len(rows)

    def drop(self) -> None:
        """Let go of a file that is not finished."""
        if not self._file.closed:
            with contextlib.suppress(OSError):
                self.close()

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()
        self._file.close()


def _plain(values: Any, missing: Any) -> Any:
    return pa.array(np.ascontiguousarray(values), mask=missing)


def _words(numbers: Any, names: Any, missing: Any) -> Any:
    known = [
        name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        for name in names
    ]
    indices = pa.array(np.ascontiguousarray(numbers, dtype=np.int32), mask=missing)
    return pa.DictionaryArray.from_arrays(indices, pa.array(known, pa.string()))
