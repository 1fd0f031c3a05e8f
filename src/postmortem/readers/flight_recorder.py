"""Dumps of PyTorch's flight recorder: pickle and JSON, of NCCL and gloo.

torch/csrc/distributed/c10d/FlightRecorder.hpp, format versions 1.x to 2.10. A pickle is followed by
native code (csrc/flightrec), never run; it needs no PyTorch here.
"""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from postmortem import _native
from postmortem.errors import EvidenceError
from postmortem.facts.flight_recorder import Collective, Recorder
from postmortem.facts.threads import Frame
from postmortem.patterns import Pattern
from postmortem.readers.json_values import whole
from postmortem.readers.stackdumps.frames import Interned

if TYPE_CHECKING:
    from postmortem._native import RawFlightRecorder

_MOST_CALLS = 200_000
_MOST_FRAMES = 256
_RANK = Pattern(r"(?<!\d)(?P<rank>\d{1,7})(?=\D*$)")
_NAMED = Pattern(r"(?i)rank[_-]?(?P<rank>\d{1,7})(?!\d)")


def looks_like_recorder(head: bytes) -> bool:
    """Return whether a file begins as a dump does, pickle or JSON."""
    if head.startswith(b"\x80") and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return b"pg_config" in head[:4096] or b"entries" in head[:4096]
    start = head[:4096].lstrip()
    return start.startswith(b"{") and (b'"pg_config"' in start or b'"collective_seq_id"' in start)


class Shared:
    """What the dumps of many ranks have in common: frames, stacks, calls. It is kept once."""

    def __init__(self) -> None:
        self.frames = Interned()
        self._stacks: dict[tuple[int, ...], tuple[Frame, ...]] = {}
        self._calls: dict[tuple[object, ...], dict[int, Collective]] = {}
        self._fields: dict[tuple[object, ...], dict[str, Any]] = {}

    def stack(self, frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        """Return the one stack of these frames, which must be interned."""
        return self._stacks.setdefault(tuple(map(id, frames)), frames)

    def calls(
        self, shape: tuple[Any, ...], stack: tuple[Frame, ...]
    ) -> tuple[dict[int, Collective], dict[str, Any]]:
        """Return the calls of a shape by number, and the fields that they have in common."""
        key = (*shape[:7], *shape[8:], id(stack))
        fields = self._fields.get(key)
        if fields is None:
            fields = self._fields[key] = _fields(shape, stack)
            self._calls[key] = {}
        return self._calls[key], fields


def followed(data: bytes) -> RawFlightRecorder | EvidenceError | None:
    """Return what a pickled dump holds; None for other data. It may run in a thread of its own."""
    if not data.startswith(b"\x80"):
        return None
    try:
        return _native.read_flight_recorder(data)
    except EvidenceError as error:
        return error


def read_recorder(
    data: bytes,
    path: str,
    shared: Shared | None = None,
    raw: RawFlightRecorder | EvidenceError | None = None,
) -> Recorder:
    """Return the dump of one rank, whose number its file's name tells.

    Raises EvidenceError if it is no dump, is cut, or its rank cannot be told.
    """
    rank = rank_of(path)
    if rank is None:
        raise EvidenceError(
            path, "a flight recorder's dump of an unknown rank", hint="its name should end in it"
        )
    if not data:
        raise EvidenceError(path, "an empty dump: the process ended before it could be written")
    shared = Shared() if shared is None else shared
    raw = followed(data) if raw is None else raw
    if raw is not None:
        return _pickled(raw, path, rank, shared)
    document = _document(data, path)
    entries = document.get("entries")
    if not isinstance(entries, list):
        raise EvidenceError(path, "a flight recorder's dump without entries")
    calls = [_call(row, shared.frames) for row in entries[-_MOST_CALLS:] if isinstance(row, dict)]
    return Recorder(
        rank=rank,
        where=path,
        version=str(document.get("version", "")),
        calls=tuple(call for call in calls if call is not None),
        members=tuple(_members(document.get("pg_config"))),
    )


def rank_of(path: str) -> int | None:
    """Return the rank that a name tells: ``nccl_trace_rank_3``, ``fr_3``, ``trace3.json``."""
    name = PurePath(path).name
    found = _NAMED.search(name) or _RANK.search(PurePath(path).stem or name)
    return int(found["rank"]) if found else None


def _document(data: bytes, path: str) -> dict[object, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(path, f"the dump is damaged or cut: {str(error)[:100]}") from None
    if not isinstance(document, dict):
        raise EvidenceError(path, "not a flight recorder's dump")
    return document


def _pickled(
    raw: RawFlightRecorder | EvidenceError, path: str, rank: int, shared: Shared
) -> Recorder:
    if isinstance(raw, EvidenceError):
        raise EvidenceError(path, f"the dump cannot be read: {raw.what}")
    frames = [
        shared.frames.frame(name, kind="python", file=file, line=line)
        for name, file, line in raw["frames"]
    ]
    stacks = [shared.stack(tuple(frames[place] for place in stack)) for stack in raw["stacks"]]
    shapes = [shared.calls(shape, stacks[shape[7]]) for shape in raw["shapes"]]
    calls = []
    for number, shape in raw["calls"]:
        known, fields = shapes[shape]
        call = known.get(number)
        if call is None:
            call = known[number] = Collective(sequence=number, **fields)
        calls.append(call)
    members = {group: {"ranks": text or ranks} for group, text, ranks in raw["members"]}
    return Recorder(
        rank=rank,
        where=path,
        version=raw["version"],
        calls=tuple(calls),
        members=tuple(_members(members)),
    )


def _fields(shape: tuple[Any, ...], stack: tuple[Frame, ...]) -> dict[str, Any]:
    group, group_words, words, state, inputs, outputs, dtypes, _, retired, is_p2p = shape
    backend, colon, operation = words.partition(":")
    return {
        "group": group,
        "group_words": group_words,
        "operation": operation if colon else backend,
        "backend": backend if colon else "",
        "input_sizes": inputs,
        "output_sizes": outputs,
        "dtypes": dtypes,
        "state": state,
        "finished": retired or state == "completed",
        "is_p2p": is_p2p,
        "frames": stack,
    }


def _call(row: dict[object, object], frames: Interned) -> Collective | None:
    group = row.get("process_group")
    names = [str(part) for part in group] if isinstance(group, list | tuple) else []
    is_p2p = row.get("is_p2p") is True
    sequence = _whole(row.get("p2p_seq_id" if is_p2p else "collective_seq_id"))
    if sequence is None:
        sequence = _whole(row.get("seq_id"))  # version 1
    words = str(row.get("profiling_name") or "?")
    backend, colon, operation = words.partition(":")
    if sequence is None:
        return None
    state = str(row.get("state") or "")
    return Collective(
        group=names[0] if names else str(row.get("pg_id", "0")),
        group_words=names[1] if len(names) > 1 else "",
        sequence=sequence,
        operation=operation if colon else backend,
        backend=backend if colon else "",
        input_sizes=_sizes(row.get("input_sizes")),
        output_sizes=_sizes(row.get("output_sizes")),
        dtypes=tuple(map(str, _list(row.get("input_dtypes"))[:64])),
        state=state,
        finished=row.get("retired") is True or state == "completed",
        is_p2p=is_p2p,
        frames=tuple(
            _frame(one, frames)
            for one in _list(row.get("frames"))[:_MOST_FRAMES]
            if isinstance(one, dict)
        ),
    )


def _frame(row: dict[object, object], frames: Interned) -> Frame:
    return frames.frame(
        str(row.get("name") or "??"),
        kind="python",
        file=str(row["filename"]) if row.get("filename") else None,
        line=_whole(row.get("line")),
    )


def _members(groups: object) -> list[tuple[str, tuple[int, ...]]]:
    """Return the ranks of each group: JSON inside of the dump, and empty in gloo's."""
    found = []
    for name, about in groups.items() if isinstance(groups, dict) else ():
        words = about.get("ranks") if isinstance(about, dict) else None
        try:
            ranks = json.loads(words) if isinstance(words, str) else words
        except (ValueError, RecursionError):
            continue
        if isinstance(ranks, list):
            numbers = tuple(sorted({r for r in ranks[:1_000_000] if _whole(r) is not None}))
            if numbers:
                found.append((str(name), numbers))
    return found


def _sizes(value: object) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(number for part in _list(row)[:64] if (number := _whole(part)) is not None)
        for row in _list(value)[:64]
    )


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _whole(value: object) -> int | None:
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 20:
        return int(value)  # JSON dumps have some numbers as text
    return whole(value)
