"""What an instruction did, and what lies at an address, in words."""

from postmortem import thresholds
from postmortem.facts.crash import Fault
from postmortem.facts.memory import Address
from postmortem.text import counted, size


def access_words(fault: Fault | None) -> str:
    """Return ``"read of"``, ``"write to"``, ``"jump to"`` or ``"access to"``."""
    access = fault.instruction.access if fault and fault.instruction else None
    return {"read": "read of", "write": "write to", "execute": "jump to"}.get(
        access or "", "access to"
    )


def size_words(count: int) -> str:
    """Return a number of bytes: exactly where it may be an offset."""
    return counted(count, "byte") if count < 10_000 else size(count)


def place_words(address: Address) -> str:
    """Return what lies at an address: ``"in the heap"``, ``"4096 bytes below a stack"``."""
    if address.mapped:
        what = address.path or address.kind or "a mapping"
        permissions = f" ({address.permissions})" if address.permissions else ""
        return f"in {what}{permissions}"
    parts = []
    below = None if address.below_end is None else address.value - address.below_end
    above = None if address.above_start is None else address.above_start - address.value
    if below == 0:
        parts.append("right at the end of the mapping below it")
    elif below is not None and 0 < below < thresholds.NEIGHBOUR_BYTES:
        parts.append(f"{size_words(below)} past the mapping below it")
    if above is not None and 0 <= above < thresholds.NEIGHBOUR_BYTES:
        kind = f" ({address.above_kind})" if address.above_kind else ""
        parts.append(f"{size_words(above)} before the mapping above it{kind}")
    return "where nothing is mapped" + (", " + " and ".join(parts) if parts else "")
