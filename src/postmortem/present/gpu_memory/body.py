"""The fields of ``kind gpu_memory`` in the JSON report."""

from collections.abc import Sequence

from postmortem.facts.gpu_memory import DeviceMemory, GpuMemory, OutOfMemory, Owner, Place, place_of
from postmortem.report.contract import fill
from postmortem.report.contract import gpu_memory as shapes

_MOST_OWNERS = 20
_MOST_FAILURES = 100


def memory_body(memory: GpuMemory) -> dict[str, object]:
    """Return the fields of the report as plain JSON values."""
    snapshots = [
        fill(shapes.Snapshot, one, devices=[_device(device) for device in one.devices])
        for one in memory.snapshots
    ]
    return fill(shapes.GpuMemory, memory, snapshots=snapshots)


def _device(one: DeviceMemory) -> dict[str, object]:
    peak = one.peak
    return fill(
        shapes.DeviceMemory,
        one,
        owners=_owners(one.owners),
        peak=None if peak is None else fill(shapes.Peak, peak, owners=_owners(peak.owners)),
        failures=[_failure(row) for row in one.failures[-_MOST_FAILURES:]],
    )


def _owners(rows: Sequence[Owner]) -> list[dict[str, object]]:
    return [fill(shapes.Owner, one, **_place(one.place)) for one in rows[:_MOST_OWNERS]]


def _failure(one: OutOfMemory) -> dict[str, object]:
    return fill(shapes.OutOfMemory, one, **_place(place_of(one.frames)))


def _place(place: Place | None) -> dict[str, object]:
    if place is None:
        return {"function": None, "file": None, "line": None}
    return {"function": place.function, "file": place.file, "line": place.line}
