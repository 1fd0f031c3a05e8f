"""What the kernel of a host wrote about faults: of processes, of GPUs, of the machine itself."""

from __future__ import annotations

from enum import StrEnum

from postmortem.facts.last_lines import Placed
from postmortem.records import record


class KernelKind(StrEnum):
    """What an event of the kernel is about."""

    OOM_KILL = "oom kill"
    """It killed a process because memory was short."""
    CRASH = "crash"
    """A process did what it may not: a bad address, an unknown instruction."""
    GPU = "gpu"
    """NVIDIA's or AMD's driver reports an error of a GPU: an Xid, a reset."""
    MACHINE = "machine"
    """A machine check, or memory that ECC could not correct."""
    PCIE = "pcie"
    DISK = "disk"
    """A device or a file system of this host."""
    NETWORK_FS = "network file system"
    FABRIC = "fabric"
    """InfiniBand, RoCE, NVSwitch."""
    BLOCKED = "blocked"
    """A task does not come back from the kernel, or does not leave it."""
    NOTE = "note"
    """True, and no fault: a corrected error, a core that was not written."""


class Fault(StrEnum):
    """Whose fault an event is, as far as its kind says so."""

    PROGRAM = "program"
    HARDWARE = "hardware"
    """The GPU, the machine, a device, or what runs in it."""
    AFTERMATH = "aftermath"
    """A consequence of an error that stands before it."""
    UNKNOWN = "unknown"
    NONE = "none"


MOST_COUNTED = 2000
"""Lines of one kind that are read of a file: what goes on for ever says no more."""


@record
class KernelEvent(Placed):
    """One thing that went wrong, as the kernel's log says it."""

    kind: KernelKind
    signature: str
    """Id of the known line, for ``postmortem rules ID``."""
    text: str
    file: str
    line: int
    fault: Fault = Fault.UNKNOWN
    words: str = ""
    """What it means, in a few words."""
    brief: str = ""
    """The same in fewer: ``Xid 79 (GPU has fallen off the bus)``, ``wrote to 0x0``."""
    limit: bool = False
    """Of a kill for memory: a container or a job used up what it was given, not the host."""
    host: str | None = None
    """Of the line itself, or of the name of its file."""
    time: float | None = None
    """Seconds since 1970 as the line's clock shows them, of no time zone."""
    uptime: float | None = None
    """Seconds since the host started."""
    pid: int | None = None
    """As the host counts; a process in a container knows itself by another number."""
    process: str | None = None
    """Its command name, at most 15 bytes."""
    number: int | None = None
    """Of an Xid."""
    device: str | None = None
    """The PCI address of a GPU, a disk, a network device, a server."""
    signal: str | None = None
    """What the process is sent for a crash."""
    place: str | None = None
    """Of a crash, ``module+0xOFFSET``."""
    beside: frozenset[int] = frozenset()
    """Pids in the table of tasks that stands before an OOM kill."""
    stack: tuple[str, ...] = ()
    """Functions of the kernel, the innermost first."""
    count: int = 1
    """Lines that say the same of the same; from `MOST_COUNTED` on there may be more."""


@record
class KernelLog:
    """The events of all kernel logs, in the order of the files and of their lines."""

    events: tuple[KernelEvent, ...] = ()
    files: tuple[str, ...] = ()
    lines: int = 0

    def of(self, *kinds: KernelKind) -> tuple[KernelEvent, ...]:
        """Return the events of some kinds."""
        return tuple(event for event in self.events if event.kind in kinds)
