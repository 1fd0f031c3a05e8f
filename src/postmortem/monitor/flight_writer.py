"""Writes the flight file: the last frames in a mapped file, which outlives the process.

The kernel keeps what was written to a shared mapping when the process is killed, so a record is
safe as soon as it is written, without any system call.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
import socket
import time
from pathlib import Path
from typing import Any
from zlib import crc32

import torch

from postmortem._scan import write_records
from postmortem.facts import flight_format as layout
from postmortem.facts.frames import CellKind, Frame, Phase
from postmortem.monitor.calls import Call

log = logging.getLogger("postmortem.monitor")

_RECORDS = 16384
_SLACK = 64 << 10
_KEPT = 3
_CODES = {name: code for code, name in enumerate(layout.DTYPES)}
_CHECKED = layout.RECORD.size - 4


class FlightWriter:
    """A ring of records in a mapped file; `write` puts a frame into it."""

    def __init__(self, path: Path, names_bytes: int, rank: int, size: int) -> None:
        self.path = path
        self._pid = os.getpid()
        self._names_at = layout.HEADER_BYTES
        records_at = _aligned(self._names_at + names_bytes)
        self._names_end = records_at
        total = records_at + _RECORDS * layout.RECORD_BYTES
        with path.open("w+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, total)  # a full disk says so now, not SIGBUS
                self._map = mmap.mmap(file.fileno(), total)
            except OSError:
                path.unlink(missing_ok=True)
                raise
        self._records_at = records_at
        self._view = memoryview(self._map)
        self._names: dict[str, int] = {}
        self._count = 0
        self._name_end = self._names_at
        self._written = 0
        self._batch = 0
        head = layout.HEADER.pack(
            layout.MAGIC,
            layout.VERSION,
            layout.HEADER_BYTES,
            layout.RECORD_BYTES,
            _RECORDS,
            self._names_at,
            records_at - self._names_at,
            records_at,
            rank,
            size,
            self._pid,
            time.time(),
            socket.gethostname().encode()[:63],
            0,
        )[:-4]
        self._map[: len(head) + 4] = head + crc32(head).to_bytes(4, "little")
        self._state(0)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], model: torch.nn.Module, rank: int, size: int
    ) -> FlightWriter | None:
        """Return a writer, or None with a warning where the file cannot be had.

        In a folder (or where the name ends in a slash) the file is ``rankN.flight``. Files of
        earlier runs are kept as ``.1`` to ``.3``.
        """
        place = Path(path)
        names = sum(
            len(name.encode()) + len(type(module).__name__) + 16
            for name, module in model.named_modules()
        )
        try:
            if place.is_dir() or str(path).endswith("/"):
                place = place / f"rank{rank}.flight"
            place.parent.mkdir(parents=True, exist_ok=True)
            _rotate(place)
            return cls(place, 2 * names + _SLACK, rank, size)
        except (OSError, ValueError) as error:
            log.warning("no flight file at %s: %s; the run goes on without", place, error)
            return None

    def begin_batch(self, batch: int) -> None:
        """Write that a batch has begun."""
        self._batch = batch
        self._state(0)

    def write(self, frame: Frame) -> None:
        """Write the cells of a frame; their numbers must be here."""
        if os.getpid() != self._pid:  # a child of fork, which shares the mapping
            return
        now = time.time()
        module = self._name(f"{frame.module}{layout.SEPARATOR}{frame.class_name}")
        flags = frame.phase << layout.PHASE_SHIFT | layout.OPENS_BATCH * frame.opens_batch
        pack, view, ring = layout.RECORD.pack_into, self._view, self._map
        for cell in frame.cells:
            at = self._records_at + self._written % _RECORDS * layout.RECORD_BYTES
            self._written += 1
            r = cell.numbers
            label = self._name(_label(cell.name, cell.remark))
            front = (self._written, now, frame.batch, frame.number, module, label, cell.kind)
            if r is None:
                values = (0, flags | layout.NO_NUMBERS, 0, 0, 0, 0, 0, 0, -1, 0.0, 0.0, 0.0, 0.0)
            else:
                own = flags | layout.MASKED if cell.masked else flags
                count = cell.saturated
                if count is not None:
                    own |= layout.HAS_SATURATED
                first = r.first_nonfinite
                values = (
                    _CODES.get(r.dtype, 0),
                    own,
                    min(count or 0, 0xFFFFFFFF),
                    r.numel,
                    r.nan_count,
                    r.inf_count,
                    r.zero_count,
                    r.subnormal_count,
                    -1 if first is None else first,
                    r.abs_min,
                    r.abs_max,
                    r.abs_min_nonzero,
                    r.abs_max_finite,
                )
            pack(ring, at, *front, *values, 0)
            check = crc32(view[at : at + _CHECKED])
            ring[at + _CHECKED : at + _CHECKED + 4] = check.to_bytes(4, "little")

    def write_call(self, call: Call) -> None:
        """Write the cells of a call that has not been made a frame of: the same, at less cost."""
        if os.getpid() != self._pid:
            return
        module = self._name(f"{call.module}{layout.SEPARATOR}{call.class_name}")
        flags = Phase.FORWARD << layout.PHASE_SHIFT | layout.OPENS_BATCH * call.opens_batch
        place = (time.time(), call.batch, call.number, module)
        edge, end = 2 * call.inputs, len(call.pairs)
        for kind, pairs, first, last in (
            (CellKind.WEIGHT, call.weights, 0, len(call.weights)),
            (CellKind.INPUT, call.pairs, 0, edge),
            (CellKind.OUTPUT, call.pairs, edge, end),
        ):
            if first != last:
                self._write_pairs((*place, kind, flags, _CODES), pairs, first, last)

    def write_gradient(self, frame: Frame, pairs: list[Any]) -> None:
        """Write the name and numbers of a clean gradient: the same as `write`, at less cost."""
        if os.getpid() != self._pid:
            return
        module = self._name(f"{frame.module}{layout.SEPARATOR}{frame.class_name}")
        place = (time.time(), frame.batch, frame.number, module)
        flags = Phase.BACKWARD << layout.PHASE_SHIFT
        self._write_pairs((*place, CellKind.GRADIENT, flags, _CODES), pairs, 0, 2)

    def _write_pairs(self, front: tuple[Any, ...], pairs: list[Any], first: int, last: int) -> None:
        ring = (self._map, self._records_at, _RECORDS, self._written, front, self._names)
        written = write_records(*ring, pairs, first, last)
        if written is None:  # a name is new
            for name, what in zip(pairs[first:last:2], pairs[first + 1 : last : 2], strict=True):
                self._name(_label(name, what) if isinstance(what, str) else name)
            written = write_records(*ring, pairs, first, last)
        if written is not None:
            self._written = written

    def ends(self, ended: str) -> None:
        """Write how the run ended; a batch that begins after all takes it back."""
        self._state(layout.ENDINGS.index(ended))

    def close(self, ended: str) -> None:
        """Write how the run ended, and let go of the file."""
        self.ends(ended)
        self._view.release()
        self._map.close()

    def _state(self, ending: int) -> None:
        if os.getpid() != self._pid:  # a child of fork is not the run
            return
        row = layout.STATE.pack(ending, self._batch, time.time(), 0)[:-4]
        at = layout.STATE_OFFSET
        self._map[at : at + layout.STATE.size] = row + crc32(row).to_bytes(4, "little")

    def _name(self, name: str) -> int:
        """Return the number of a name, and write it into the table when it is new."""
        known = self._names.get(name)
        if known is not None:
            return known
        text = name.encode(errors="replace")[:0xFFFF]
        end = self._name_end + layout.NAME.size + len(text)
        if end > self._names_end:
            self._names[name] = layout.NO_NAME
            return layout.NO_NAME
        self._map[self._name_end + layout.NAME.size : end] = text
        layout.NAME.pack_into(self._map, self._name_end, len(text), crc32(text))
        self._name_end = end
        self._names[name] = self._count
        self._count += 1
        return self._names[name]


def _label(name: str, note: str) -> str:
    return f"{name}{layout.SEPARATOR}{note}" if note else name


def _aligned(offset: int) -> int:
    return -(-offset // 4096) * 4096


def _rotate(path: Path) -> None:
    """Keep the files of the runs before: they may be why this one was started.

    Raises OSError for what is no file: a device would be renamed, and a pipe waited for.
    """
    if not path.exists():
        return
    if not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file")
    for at in range(_KEPT - 1, 0, -1):
        older = path.with_name(f"{path.name}.{at}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{at + 1}"))
    path.replace(path.with_name(f"{path.name}.1"))
