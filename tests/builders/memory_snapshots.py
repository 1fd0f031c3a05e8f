"""Snapshots of PyTorch's CUDA allocator, as its own code writes them: a run of events is followed.

Only what the allocator's documentation names is here: segments of blocks, and a trace of events.
"""

import pickle
from pathlib import Path
from typing import Any

MIB = 1 << 20
_BASE = 0x7F00_0000_0000

Frames = list[dict[str, Any]]


def stack(*calls: tuple[str, int]) -> Frames:
    """Frames, innermost first: each a function of ``train.py`` and its line; C++ below Python."""
    rows: Frames = [{"filename": "??", "line": 0, "name": "c10::Allocator::allocate"}]
    rows += [
        {"filename": "/home/user/train.py", "line": line, "name": name} for name, line in calls
    ]
    return rows


class Device:
    """An allocator that gives each block a place of its own in one segment."""

    def __init__(self, total: int, *, expandable: bool = False, recorded: bool = True) -> None:
        self.total = total
        self.expandable = expandable
        self.blocks: dict[int, dict[str, Any]] = {}
        self.trace: list[dict[str, Any]] = []
        self.recorded = recorded
        self._next = _BASE

    def alloc(self, size: int, frames: Frames, *, asked: int | None = None) -> int:
        """Allocate a block of `size`, of which `asked` were asked for; return its address."""
        address = self._next
        self._next += size
        asked = size if asked is None else asked
        self.blocks[address] = {
            "address": address,
            "size": size,
            "requested_size": asked,
            "state": "active_allocated",
            "frames": frames if self.recorded else [],
        }
        self._note("alloc", address, asked, frames)
        return address

    def free(self, address: int) -> None:
        """Give a block back."""
        block = self.blocks[address]
        block["state"], size = "inactive", block["requested_size"]
        self._note("free_requested", address, size, [])
        self._note("free_completed", address, size, [])

    def fail(self, size: int, free: int, frames: Frames) -> None:
        """Fail a request."""
        row = {"action": "oom", "size": size, "device_free": free, "stream": 0, "frames": frames}
        self.trace.append(row | {"time_us": len(self.trace)})

    def _note(self, action: str, address: int, size: int, frames: Frames) -> None:
        if self.recorded:
            row = {"action": action, "addr": address, "size": size, "stream": 0}
            self.trace.append(row | {"frames": frames, "time_us": len(self.trace)})

    def segment(self, device: int) -> dict[str, Any]:
        """The one segment; what no block has is a hole at its end."""
        blocks = list(self.blocks.values())
        rest = self.total - sum(one["size"] for one in blocks)
        assert rest >= 0
        if rest:
            hole = {"address": self._next, "size": rest, "requested_size": 0, "state": "inactive"}
            blocks.append(hole | {"frames": []})
        used = sum(one["size"] for one in blocks if one["state"] == "active_allocated")
        return {
            "device": device,
            "address": _BASE,
            "total_size": self.total,
            "allocated_size": used,
            "active_size": used,
            "requested_size": used,
            "stream": 0,
            "segment_type": "large",
            "is_expandable": self.expandable,
            "frames": [],
            "blocks": blocks,
        }


def snapshot(*devices: Device) -> dict[str, Any]:
    """What ``torch.cuda.memory._snapshot()`` returns."""
    return {
        "segments": [one.segment(index) for index, one in enumerate(devices)],
        "device_traces": [one.trace for one in devices],
        "allocator_settings": {"expandable_segments": any(one.expandable for one in devices)},
        "external_annotations": [],
    }


def write(path: Path, *devices: Device, protocol: int = 4) -> Path:
    """Write a snapshot as ``_dump_snapshot()`` does."""
    path.write_bytes(pickle.dumps(snapshot(*devices), protocol=protocol))
    return path
