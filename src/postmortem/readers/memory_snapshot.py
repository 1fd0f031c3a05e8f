"""Snapshots of PyTorch's CUDA allocator, read without unpickling.

The format is that of ``torch.cuda.memory._snapshot()`` (torch/cuda/memory.py and
c10/cuda/CUDACachingAllocator.h): segments with their blocks, and a trace of events with stacks. The
sizes of a trace are those that were asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

from postmortem.errors import EvidenceError
from postmortem.facts.gpu_memory import (
    DeviceMemory,
    MemorySnapshot,
    OutOfMemory,
    Owner,
    Peak,
    Place,
    Unfreed,
    place_of,
)
from postmortem.facts.threads import Frame
from postmortem.readers.checkpoint.objects import PickleError, Unknown
from postmortem.readers.checkpoint.pickled import load
from postmortem.readers.flight_recorder import rank_of
from postmortem.readers.regular import open_regular, read_regular, unread

_LARGEST_FILE = 4 << 30
_HEAD_BYTES = 96
_MOST_OWNERS = 1000
_MOST_FRAMES = 256
_FEWEST_UNFREED = 8
_ALLOCATED = "active_allocated"
_WAITING = frozenset({"active_pending_free", "active_awaiting_free"})
_FREED = "free_completed"


def looks_like_snapshot(head: bytes) -> bool:
    """Return whether a file begins as a pickled snapshot does: a dict whose first key is it."""
    return head.startswith(b"\x80") and b"segments" in head[:_HEAD_BYTES]


def is_snapshot(path: str) -> bool:
    """Return whether a regular file looks like a snapshot; False where it cannot be read."""
    try:
        with open_regular(path) as stream:
            return looks_like_snapshot(stream.read(_HEAD_BYTES))
    except OSError:
        return False


def read_snapshot(path: str) -> MemorySnapshot:
    """Return one snapshot; raises EvidenceError."""
    try:
        data = read_regular(path, most=_LARGEST_FILE)
    except OSError as error:
        raise EvidenceError(path, unread(error)) from error
    try:
        document = load(BytesIO(data))
    except PickleError as error:
        raise EvidenceError(path, f"is not a snapshot of PyTorch's memory: {error}") from None
    rows = document.get("segments") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(rows, list | Unknown):
        raise EvidenceError(path, "is a pickle, and no snapshot of PyTorch's memory")
    try:
        devices = tuple(_Reader(len(data)).devices(document))
    except PickleError as error:
        raise EvidenceError(path, str(error)) from None
    return MemorySnapshot(path, rank_of(Path(path).name), devices)


class _Reader:
    """One snapshot on its way to facts; what many blocks and events share is made once."""

    def __init__(self, size: int) -> None:
        """`size` is that of the file, which holds no more rows unless lists stand in it twice."""
        self._room = size
        self._stacks: dict[int, tuple[Frame, ...]] = {}
        self._places: dict[int, Place | None] = {}
        self._kept: list[object] = []
        """What ids stand for must not go while they do."""

    def devices(self, document: Mapping[Any, Any]) -> Iterator[DeviceMemory]:
        segments: dict[int, list[Mapping[Any, Any]]] = {}
        for row in self._each(document.get("segments")):
            segments.setdefault(_whole(row.get("device")), []).append(row)
        traces = _items(document.get("device_traces"))
        for device in sorted({*segments, *(i for i, rows in enumerate(traces) if _items(rows))}):
            trace = list(self._each(traces[device])) if device < len(traces) else []
            yield self._device(device, segments.get(device, []), trace)

    def _each(self, value: object) -> Iterator[Mapping[Any, Any]]:
        """Yield the rows of a list, as `_rows`; raises PickleError where there are too many."""
        for row in _rows(value):
            self._room -= 1
            if self._room < 0:
                raise PickleError("repeats the same lists more often than any program would write")
            yield row

    def _device(
        self, device: int, segments: list[Mapping[Any, Any]], trace: list[Mapping[Any, Any]]
    ) -> DeviceMemory:
        live: dict[int, tuple[int, Place | None]] = {}
        used = rounding = hole = blocks = 0
        for segment in segments:
            for block in self._each(segment.get("blocks")):
                size, state = _whole(block.get("size")), _text(block.get("state"))
                asked = min(_whole(block.get("requested_size")) or size, size)
                if state == _ALLOCATED or state in _WAITING:
                    address = _whole(block.get("address")) or -len(live) - 1
                    live[address] = (asked, self._place(block.get("frames")))
                    used += size
                    rounding += size - asked
                    blocks += 1
                else:
                    hole = max(hole, size)
        reserved = sum(_whole(segment.get("total_size")) for segment in segments)
        allocated = sum(size for size, _ in live.values())
        replay = _Replay(trace, live, self._place)
        return DeviceMemory(
            device=device,
            reserved_bytes=reserved,
            allocated_bytes=allocated,
            rounding_bytes=rounding,
            free_bytes=max(0, reserved - used),
            largest_hole_bytes=hole,
            segments=len(segments),
            blocks=blocks,
            expandable=any(segment.get("is_expandable") is True for segment in segments),
            owners=_owners(live.values()),
            events=len(trace),
            peak=replay.peak(),
            failures=tuple(self._failures(trace, replay)),
            unfreed=tuple(_unfreed(trace, live, self._place)),
        )

    def _failures(self, trace: list[Mapping[Any, Any]], replay: _Replay) -> Iterator[OutOfMemory]:
        later = 0
        found = []
        for index in range(len(trace) - 1, -1, -1):
            row = trace[index]
            if row.get("action") == "alloc":
                later += 1
            elif row.get("action") == "oom":
                found.append(
                    OutOfMemory(
                        bytes=_whole(row.get("size")),
                        free_bytes=_whole(row.get("device_free")),
                        allocated_bytes=replay.allocated(index),
                        frames=self._frames(row.get("frames")),
                        later_allocations=later,
                    )
                )
        yield from reversed(found)

    def _place(self, frames: object) -> Place | None:
        key = id(frames)
        if key not in self._places:
            self._kept.append(frames)
            self._places[key] = place_of(self._frames(frames))
        return self._places[key]

    def _frames(self, frames: object) -> tuple[Frame, ...]:
        key = id(frames)
        if key not in self._stacks:
            self._kept.append(frames)
            rows = islice(_rows(frames), _MOST_FRAMES)
            self._stacks[key] = tuple(map(_frame, rows))
        return self._stacks[key]


class _Replay:
    """The trace as sums: how much was allocated after each event.

    What was allocated before the recording began is what must have been there for the snapshot to
    hold what it holds.
    """

    def __init__(
        self,
        trace: list[Mapping[Any, Any]],
        live: Mapping[int, tuple[int, Place | None]],
        place: Callable[[object], Place | None],
    ) -> None:
        self._trace = trace
        self._live = live
        self._place = place
        changes = [_change(row) for row in trace]
        at = sum(size for size, _ in live.values()) - sum(changes)
        self._before = max(0, at)
        self._after: list[int] = []
        now = self._before
        for change in changes:
            now += change
            self._after.append(max(0, now))

    def allocated(self, index: int) -> int:
        return self._after[index]

    def peak(self) -> Peak | None:
        """Return the largest sum, with who had it; None without a trace."""
        if not self._trace:
            return None
        top = max(range(len(self._after)), key=self._after.__getitem__)
        seen = {_whole(row.get("addr")) for row in self._trace if row.get("action") == "alloc"}
        held = {key: row for key, row in self._live.items() if key not in seen}
        for row in self._trace[: top + 1]:
            if row.get("action") == "alloc":
                held[_whole(row.get("addr"))] = (
                    _whole(row.get("size")),
                    self._place(row.get("frames")),
                )
            elif row.get("action") == _FREED:
                held.pop(_whole(row.get("addr")), None)
        rest = self._after[top] - sum(size for size, _ in held.values())
        rows = [*held.values(), *([(rest, None)] if rest > 0 else [])]
        return Peak(self._after[top], _owners(rows))


def _unfreed(
    trace: list[Mapping[Any, Any]],
    live: Mapping[int, tuple[int, Place | None]],
    place: Callable[[object], Place | None],
) -> Iterator[Unfreed]:
    """Yield the lines that asked again and again in the trace, and of which all is still held."""
    asked: dict[Place, list[int]] = {}
    last_at: dict[int, int] = {}
    for index, row in enumerate(trace):
        if row.get("action") == "alloc":
            last_at[_whole(row.get("addr"))] = index
            at = place(row.get("frames"))
            if at is not None:
                asked.setdefault(at, []).append(index)
    for at, indices in asked.items():
        if len(indices) < _FEWEST_UNFREED:
            continue
        kept = [
            _whole(trace[i].get("size"))
            for i in indices
            if (address := _whole(trace[i].get("addr"))) in live and last_at[address] == i
        ]
        if len(kept) == len(indices):
            first, last = indices[0] / len(trace), indices[-1] / len(trace)
            yield Unfreed(Owner(at, sum(kept), len(kept)), first, last)


def _change(row: Mapping[Any, Any]) -> int:
    action = row.get("action")
    if action == "alloc":
        return _whole(row.get("size"))
    return -_whole(row.get("size")) if action == _FREED else 0


def _owners(rows: Iterable[tuple[int, Place | None]]) -> tuple[Owner, ...]:
    bytes_of: Counter[Place | None] = Counter()
    blocks_of: Counter[Place | None] = Counter()
    for size, place in rows:
        bytes_of[place] += size
        blocks_of[place] += 1
    most = bytes_of.most_common(_MOST_OWNERS)
    return tuple(Owner(place, size, blocks_of[place]) for place, size in most)


def _frame(row: Mapping[Any, Any]) -> Frame:
    file, line = _text(row.get("filename")), _whole(row.get("line"))
    python = file.endswith(".py") or file.startswith("<")
    return Frame(
        _text(row.get("name")) or "??",
        kind="python" if python else "native",
        file=file if file not in ("", "??") else None,
        line=line or None,
    )


def _rows(value: object) -> Iterator[Mapping[Any, Any]]:
    return (row for row in _items(value) if isinstance(row, dict))


def _items(value: object) -> Sequence[Any]:
    """Return a list, also one that a pickle of TorchScript makes by a call."""
    if isinstance(value, Unknown):
        parts = value.parts
        value = parts[0] if isinstance(parts, tuple | list) and parts else value.listed
    return value if isinstance(value, list | tuple) else ()


def _whole(value: object) -> int:
    return value if type(value) is int and 0 <= value < 1 << 63 else 0


def _text(value: object) -> str:
    return value[:4096] if isinstance(value, str) else ""
