"""The ring file of ``postmortem watch`` to facts: also after the watch, or the node, was killed."""

import math
from pathlib import Path
from typing import BinaryIO

from postmortem.errors import EvidenceError
from postmortem.facts import watch_format
from postmortem.facts.source import Problem
from postmortem.facts.watch import Ceiling, Sample, Watched, Watching
from postmortem.readers.regular import open_regular, unread

_LARGEST = 1 << 30
_PIECE = watch_format.RECORD_BYTES << 13
_ZEROS = bytes(_PIECE)


def is_watch_ring(head: bytes) -> bool:
    """Return whether a file begins as a ring of ours does."""
    return head.startswith(watch_format.MAGIC)


def read_watch_ring(path: Path) -> tuple[Watching, bool, tuple[Problem, ...]]:
    """Return what was watched, whether the watch ended by itself, and what could not be read."""
    try:
        with open_regular(path) as stream:
            data = stream.read(watch_format.HEADER_BYTES)
            rows, torn = _records(stream)
    except OSError as error:
        raise EvidenceError(str(path), unread(error)) from None
    if len(data) < watch_format.HEADER_BYTES or not is_watch_ring(data):
        raise EvidenceError(
            str(path), "is not a ring file", hint="postmortem watch --ring FILE writes one"
        )
    _, size, _, _, interval = watch_format.HEADER.unpack_from(data)
    if size != watch_format.RECORD_BYTES:
        raise EvidenceError(str(path), f"has records of {size} bytes; this version knows 128")
    rows.sort(key=lambda row: row[1])
    problems = [Problem(str(path), f"{torn} records are damaged")] if torn else []
    ended = bool(rows) and rows[-1][0] == watch_format.END
    return _watching(rows, interval if 0 < interval < 1e6 else 1.0), ended, tuple(problems)


def _records(stream: BinaryIO) -> tuple[list[watch_format.Record], int]:
    """Return the whole records of a ring, and how many are damaged."""
    rows: list[watch_format.Record] = []
    torn = 0
    for _ in range(0, _LARGEST, _PIECE):
        data = stream.read(_PIECE)
        if _ZEROS.startswith(data):  # not written yet
            if data:
                continue
            break
        for start in range(0, len(data) - watch_format.RECORD_BYTES + 1, watch_format.RECORD_BYTES):
            chunk = data[start : start + watch_format.RECORD_BYTES]
            row = watch_format.unpack(chunk)
            if row is not None and math.isfinite(row[2]):
                rows.append(row)
            else:
                torn += any(chunk)
    return rows, torn


def _watching(rows: list[watch_format.Record], gap: float) -> Watching:
    names: dict[int, tuple[str, int | None]] = {}
    samples: dict[int, list[Sample]] = {}
    ceilings: dict[int, tuple[int, list[tuple[float, int]]]] = {}
    gone: set[int] = set()
    for kind, _, at, pid, numbers, text in rows:
        if kind == watch_format.NAME:
            rank, _, name = text.partition(" ")
            names[pid] = (name, int(rank) if rank.isdecimal() else None)
        elif kind == watch_format.SAMPLE:
            samples.setdefault(pid, []).append(Sample(at, *numbers))
            gone.discard(pid)
        elif kind == watch_format.GONE:
            gone.add(pid)
        elif kind == watch_format.CEILING:
            ceilings.setdefault(pid, (numbers[0], []))[1].append((at, numbers[1]))
    times = [row[2] for row in rows]
    last = max(times, default=0.0)
    return Watching(
        processes=tuple(
            Watched(pid, *names.get(pid, ("?", None)), tuple(s), ended=pid in gone)
            for pid, s in samples.items()
        ),
        ceilings=tuple(
            Ceiling(names.get(pid, ("a limit", None))[0], limit, tuple(used))
            for pid, (limit, used) in ceilings.items()
        ),
        seconds=last - min(times, default=0.0),
        interval_seconds=gap,
    )
