"""What snapshots of GPU memory say first."""

from collections.abc import Sequence

from postmortem.facts.gpu_memory import GpuMemory
from postmortem.present.headline.grammar import doubt
from postmortem.report.model import Diagnosis, Role
from postmortem.text import counted, size


def headline(memory: GpuMemory, diagnoses: Sequence[Diagnosis]) -> str:
    """Return what ran out or grows, else what is held."""
    best = diagnoses[0] if diagnoses else None
    if best is not None and best.role is not Role.CONTEXT:
        return f"{doubt(best)}{best.title}"
    devices = [device for one in memory.snapshots for device in one.devices]
    if not devices:
        return "no GPU memory was in use"
    most = max(devices, key=lambda one: one.allocated_bytes)
    of = f" at most, in {counted(len(devices), 'snapshot')}" if len(devices) > 1 else ""
    return (
        f"no request for GPU memory failed at the end: {size(most.allocated_bytes)} of "
        f"{size(most.reserved_bytes)} reserved are in use{of}"
        if any(one.events for one in devices)
        else f"{size(most.allocated_bytes)} of {size(most.reserved_bytes)} reserved are in use"
        f"{of}; no events were recorded"
    )
