"""Flight files to facts: the last frames of a training process, however it ended.

The file is read as hostile: it may be cut, half written, or not one of ours. A record counts if its
checksum is right; the order is that of the records' numbers, and nothing is believed of how many
there should be.
"""

import mmap
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any
from zlib import crc32

from postmortem.errors import EvidenceError
from postmortem.facts import flight_format as layout
from postmortem.facts.frames import (
    Cell,
    CellKind,
    Flight,
    FlightRecorder,
    Frame,
    Note,
    Phase,
    Reading,
)
from postmortem.facts.source import Problem
from postmortem.readers.regular import open_regular, unread
from postmortem.text import counted

_MOST_BYTES = 1 << 30
_MOST_NAMES = 1 << 20
_HINT = "a flight file is written by NumericsMonitor(model, flight=...)"


def is_flight(head: bytes) -> bool:
    """Return whether a file begins like a flight file."""
    return head.startswith(layout.MAGIC)


def read_flight(path: str | Path) -> tuple[Flight, tuple[Problem, ...]]:
    """Return the frames of a flight file, and what of it could not be read.

    Raises EvidenceError if it is none, or of a version that is not known.
    """
    where = str(path)
    try:
        with open_regular(path) as file:
            size = file.seek(0, 2)
            if size < layout.HEADER_BYTES:
                what = f"not a flight file: it has {size} bytes" if size else "is empty"
                raise EvidenceError(where, what, hint=_HINT)
            file.seek(0)
            if size > _MOST_BYTES:
                raise EvidenceError(where, f"{size:,} bytes are too many for a flight file")
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
                return _Reader(where, data).flight()
    except OSError as error:
        raise EvidenceError(where, unread(error)) from None


class _Reader:
    def __init__(self, path: str, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._problems: list[Problem] = []

    def flight(self) -> tuple[Flight, tuple[Problem, ...]]:
        head = layout.HEADER.unpack_from(self._data, 0)
        magic, version, _, record_bytes, capacity, names_at, names_bytes, records_at = head[:8]
        if magic != layout.MAGIC:
            raise EvidenceError(self._path, "not a flight file", hint=_HINT)
        if version != layout.VERSION or record_bytes != layout.RECORD_BYTES:
            what = f"flight file of version {version} with records of {record_bytes} bytes"
            raise EvidenceError(self._path, f"{what}; version {layout.VERSION} is known", offset=8)
        if head[-1] != crc32(self._data[: layout.HEADER.size - 4]):
            self._problem("the header", "its checksum is wrong: rank, host and start may be too")
        names = self._names(names_at, names_bytes)
        rows, unreadable = self._rows(records_at, capacity)
        frames = tuple(_frames(rows, names))
        flight = Flight(
            self._path,
            self._recorder(head),
            frames,
            rows[-1][0] if rows else 0,
            unreadable,
            len(self._data),
        )
        return flight, tuple(self._problems)

    def _recorder(self, head: tuple[Any, ...]) -> FlightRecorder:
        rank, size, pid, started, host = head[8:13]
        ending, batch, written, check = layout.STATE.unpack_from(self._data, layout.STATE_OFFSET)
        end = layout.STATE_OFFSET + layout.STATE.size - 4
        right = check == crc32(self._data[layout.STATE_OFFSET : end])
        if not right:
            self._problem("the state", "it was being written when the process ended")
        known = right and ending < len(layout.ENDINGS)
        return FlightRecorder(
            rank,
            size,
            pid,
            host.split(b"\0")[0].decode(errors="replace"),
            started,
            written if right else None,
            batch if right else None,
            (layout.ENDINGS[ending] or None) if known else None,
        )

    def _names(self, offset: int, room: int) -> list[str]:
        names: list[str] = []
        end = min(offset + room, len(self._data))
        while offset + layout.NAME.size <= end and len(names) < _MOST_NAMES:
            size, check = layout.NAME.unpack_from(self._data, offset)
            offset += layout.NAME.size
            text = self._data[offset : min(offset + size, end)]
            if not size or len(text) != size or crc32(text) != check:
                break
            names.append(text.decode(errors="replace"))
            offset += size
        return names

    def _rows(self, offset: int, capacity: int) -> tuple[list[tuple[Any, ...]], int]:
        """Return the right records in their order, and how many are not right."""
        there = max(0, len(self._data) - offset) // layout.RECORD_BYTES
        if there < capacity:
            self._problem(
                "the ring", f"the file is cut: {there:,} of {capacity:,} records are there"
            )
        rows, wrong = [], 0
        empty = bytes(layout.RECORD_BYTES)
        for at in range(offset, offset + min(there, capacity) * layout.RECORD_BYTES, 128):
            raw = self._data[at : at + layout.RECORD_BYTES]
            if raw == empty:
                continue
            row = layout.RECORD.unpack_from(raw)
            if row[-1] == crc32(raw[: layout.RECORD.size - 4]):
                rows.append(row)
            else:
                wrong += 1
        if wrong:
            self._problem("the ring", f"{counted(wrong, 'damaged record')} left out")
        return sorted(rows, key=lambda row: (row[0], row[1])), wrong

    def _problem(self, where: str, what: str) -> None:
        self._problems.append(Problem(f"{self._path}: {where}", what))


def _frames(rows: list[tuple[Any, ...]], names: list[str]) -> Iterator[Frame]:
    """Put the cells that belong together into frames."""
    frame: Frame | None = None
    for row in rows:
        number, batch, flags = row[3], row[2], row[8]
        phase = _phase(flags >> layout.PHASE_SHIFT)
        cell = _cell(row, names)
        if phase is None or cell is None:
            continue
        if frame is None or frame.number != number or frame.phase is not phase:
            if frame is not None:
                yield frame
            module, _, class_name = _name(names, row[4]).partition(layout.SEPARATOR)
            opens = bool(flags & layout.OPENS_BATCH)
            when = row[1] if isfinite(row[1]) else 0.0
            frame = Frame(number, batch, module, class_name, [], phase, opens, when)
        frame.cells.append(cell)
    if frame is not None:
        yield frame


def _cell(row: tuple[Any, ...], names: list[str]) -> Cell | None:
    label, kind, dtype, flags, saturated = row[5:10]
    if not CellKind.WEIGHT <= kind <= CellKind.STATE:
        return None
    name, _, note = _name(names, label).partition(layout.SEPARATOR)
    if flags & layout.NO_NUMBERS:
        return Cell(CellKind(kind), name, None, *_noted(note))
    numel, nans, infs, zeros, subnormals, first = row[10:16]
    known = layout.DTYPES[dtype] if dtype < len(layout.DTYPES) else ""
    reading = Reading(
        known or "unknown",
        numel,
        nans,
        infs,
        zeros,
        subnormals,
        first if first >= 0 else None,
        *row[16:20],
    )
    masked = bool(flags & layout.MASKED)
    count = saturated if flags & layout.HAS_SATURATED else None
    return Cell(CellKind(kind), name, reading, *_noted(note), masked, count)


def _noted(text: str) -> tuple[Note | None, str]:
    """Return the note that a text begins with, and what stands behind it."""
    for note in Note:
        if text == note or text.startswith(f"{note} "):
            return note, text[len(note) + 1 :]
    return None, text


def _phase(code: int) -> Phase | None:
    return Phase(code) if Phase.FORWARD <= code <= Phase.BATCH else None


def _name(names: list[str], at: int) -> str:
    return names[at] if at < len(names) else "?"
