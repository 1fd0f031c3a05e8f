"""The report on snapshots of GPU memory, block by block."""

from collections.abc import Iterator, Sequence

from postmortem.diagnose.stacks.names import location
from postmortem.facts.gpu_memory import DeviceMemory, GpuMemory, MemorySnapshot, Owner, place_of
from postmortem.report.blocks import Block, KeyValues, Table
from postmortem.report.card import Highlights
from postmortem.report.card import Place as CardPlace
from postmortem.text import counted, size

_SHOWN = 8
_SHOWN_VERBOSE = 64


def memory_blocks(memory: GpuMemory, *, verbose: bool) -> tuple[Block, ...]:
    """Return what is shown beside the diagnoses."""
    rows = [_row(one, device) for one in memory.snapshots for device in one.devices]
    columns = ("snapshot", "GPU", "reserved", "allocated", "peak", "free", "largest hole", "events")
    blocks: list[Block] = [
        Table(columns, tuple(rows[:_SHOWN_VERBOSE]), "GPU memory", right_aligned=(2, 3, 4, 5, 6, 7))
    ]
    for snapshot in memory.snapshots[: _SHOWN if verbose else 1]:
        for device in snapshot.devices:
            blocks += _device(snapshot, device, _SHOWN_VERBOSE if verbose else _SHOWN)
    return tuple(blocks)


def memory_highlights(memory: GpuMemory) -> Highlights:
    """Return the line whose request failed, else the one that holds most."""
    for snapshot in memory.snapshots:
        for device in snapshot.devices:
            place = place_of(device.failures[-1].frames) if device.failures else None
            if place is not None and place.file is not None:
                return Highlights(places=(CardPlace(place.function, place.file, place.line),))
    return Highlights()


def _row(snapshot: MemorySnapshot, one: DeviceMemory) -> tuple[str, ...]:
    return (
        snapshot.label,
        str(one.device),
        size(one.reserved_bytes),
        size(one.allocated_bytes),
        size(one.peak.bytes) if one.peak is not None else "?",
        size(one.free_bytes),
        size(one.largest_hole_bytes),
        f"{one.events:,}",
    )


def _device(snapshot: MemorySnapshot, one: DeviceMemory, most: int) -> Iterator[Block]:
    where = f"{snapshot.label}, GPU {one.device}"
    lost = f"{size(one.rounding_bytes)} lost by rounding"
    yield KeyValues(
        (
            ("memory", where),
            ("segments", f"{one.segments:,}, {counted(one.blocks, 'block')} in use, {lost}"),
        )
    )
    if one.peak is not None:
        yield _owners(f"who held {where} at its peak", one.peak.owners, one.peak.bytes, most)
    yield _owners(f"who holds {where} in the snapshot", one.owners, one.allocated_bytes, most)


def _owners(title: str, owners: Sequence[Owner], whole: int, most: int) -> Table:
    rows = []
    for one in owners[:most]:
        share = f"{one.bytes / whole:.0%}" if whole else "–"
        place = one.place
        name = place.function if place is not None else "before the recording began"
        at = location(place.file, place.line) if place is not None else None
        rows.append((size(one.bytes), share, f"{one.blocks:,}", name, at or ""))
    left = len(owners) - len(rows)
    more = f", {left} more with -v" if left > 0 and most == _SHOWN else ""
    columns = ("bytes", "share", "blocks", "function", "line")
    return Table(columns, tuple(rows), title + more, right_aligned=(0, 1, 2))
