"""Dumps of PyTorch's flight recorder: pickle and JSON, of NCCL and gloo.

torch/csrc/distributed/c10d/FlightRecorder.hpp, format versions 1.x to 2.10. A pickle is followed by
native code (csrc/flightrec), never run; it needs no PyTorch here. JSON goes the same way.
"""

from __future__ import annotations

import json
from array import array
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from postmortem import _native
from postmortem.errors import EvidenceError
from postmortem.facts.flight_recorder import Collective, GroupStatus, RecordedGroup, Recorder
from postmortem.facts.threads import Frame
from postmortem.patterns import Pattern
from postmortem.readers.stackdumps.frames import Interned

if TYPE_CHECKING:
    from postmortem._native import RawFlightRecorder

_MOST_RANKS = 1_000_000
_ENDING = Pattern(r"(?i)\.(?:json|pkl|pickle|txt|bin|dump)$")
_RANK = Pattern(r"(?<!\d)(?P<rank>\d{1,7})(?=\D*$)")
_NAMED = Pattern(r"(?i)rank[_-]?(?P<rank>\d{1,7})(?!\d)")


def looks_like_recorder(head: bytes) -> bool:
    """Return whether a file begins as a dump does, pickle or JSON."""
    if head.startswith(b"\x80") and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return b"pg_config" in head[:4096] or b"entries" in head[:4096]
    start = head[:4096].lstrip()
    return start.startswith(b"{") and (b'"pg_config"' in start or b'"collective_seq_id"' in start)


class Shared:
    """What the dumps of many ranks have in common: frames, stacks, calls, members. Kept once."""

    def __init__(self) -> None:
        self.frames = Interned()
        self._stacks: dict[tuple[int, ...], tuple[Frame, ...]] = {}
        self._shapes: dict[tuple[object, ...], Collective] = {}
        self._groups: dict[tuple[object, ...], RecordedGroup] = {}

    def stack(self, frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        """Return the one stack of these frames, which must be interned."""
        return self._stacks.setdefault(tuple(map(id, frames)), frames)

    def shape(self, row: tuple[Any, ...], stack: tuple[Frame, ...]) -> Collective:
        """Return the one object of calls that are alike."""
        key = (*row[:-1], id(stack))
        known = self._shapes.get(key)
        if known is None:
            known = self._shapes[key] = _collective(row, stack)
        return known

    def group(
        self, name: str, words: str, text: str | None, ranks: tuple[int, ...]
    ) -> RecordedGroup:
        """Return the one object of groups that are listed alike."""
        key = (name, words, text, ranks)
        known = self._groups.get(key)
        if known is None:
            known = self._groups[key] = RecordedGroup(name, words, _members(text, ranks))
        return known


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
    written: float | None = None,
) -> Recorder:
    """Return the dump of one rank, whose number its file's name tells.

    `written` is when the file was, in seconds since 1970. Raises EvidenceError if it is no dump,
    is cut, or its rank cannot be told.
    """
    rank = rank_of(path)
    if rank is None:
        raise EvidenceError(
            path, "a flight recorder's dump of an unknown rank", hint="its name should end in it"
        )
    if not data:
        raise EvidenceError(path, "an empty dump: the process ended before it could be written")
    shared = Shared() if shared is None else shared
    if raw is None:
        raw = followed(data)
    if raw is None:
        raw = followed(_pickled(data, path))
    if isinstance(raw, EvidenceError):
        raise EvidenceError(path, f"the dump cannot be read: {raw.what}")
    assert raw is not None
    frames = [
        shared.frames.frame(name, kind="python", file=file, line=line)
        for name, file, line in raw["frames"]
    ]
    stacks = [shared.stack(tuple(frames[place] for place in stack)) for stack in raw["stacks"]]
    return Recorder(
        rank=rank,
        where=path,
        version=raw["version"],
        shapes=tuple(shared.shape(row, stacks[row[-1]]) for row in raw["shapes"]),
        shape_of=array("I", raw["shape_of"]),
        numbers=array("q", raw["numbers"]),
        created=array("q", raw["created"]),
        started=array("q", raw["started"]),
        groups=tuple(shared.group(*row) for row in raw["members"]),
        status=tuple(GroupStatus(*row) for row in raw["status"]),
        written=written,
    )


def rank_of(path: str) -> int | None:
    """Return the rank that a name tells: ``nccl_trace_rank_3``, ``fr_3``, ``trace3.json``.

    Prefixes may hold the host: ``nccl_trace_node07.cluster_12``.
    """
    name = _ENDING.sub("", PurePath(path).name)
    found = _NAMED.search(name) or _RANK.search(name)
    return int(found["rank"]) if found else None


def name_without_rank(path: str) -> str:
    """Return a dump's name with its rank taken out, as `rank_of` finds it."""
    name = _ENDING.sub("", PurePath(path).name)
    found = _NAMED.search(name) or _RANK.search(name)
    return name[: found.start("rank")] + name[found.end("rank") :] if found else name


def _pickled(data: bytes, path: str) -> bytes:
    """Return a dump in JSON as the pickle of the same values: one reader knows what is in it."""
    import pickle  # most dumps are pickles, which the native reader takes

    try:
        document = json.loads(data)
        if not isinstance(document, dict):
            raise EvidenceError(path, "not a flight recorder's dump")
        return pickle.dumps(document, protocol=4)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(path, f"the dump is damaged or cut: {str(error)[:100]}") from None


def _collective(row: tuple[Any, ...], stack: tuple[Frame, ...]) -> Collective:
    group, group_words, number, words, state, inputs, outputs, dtypes, timeout, *flags, _ = row
    backend, colon, operation = words.partition(":")
    return Collective(
        group=group,
        group_words=group_words,
        group_number=number,
        operation=operation if colon else backend,
        backend=backend if colon else "",
        input_sizes=inputs,
        output_sizes=outputs,
        dtypes=dtypes,
        state=state,
        timeout_ms=timeout,
        retired=flags[0],
        is_p2p=flags[1],
        frames=stack,
    )


def _members(text: str | None, ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ranks of a group in its order: JSON inside of NCCL's dumps, empty in gloo's."""
    found: object = ranks
    if text is not None:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return ()
    listed = found[:_MOST_RANKS] if isinstance(found, list | tuple) else ()
    return tuple(dict.fromkeys(r for r in listed if type(r) is int and r >= 0))
