"""What PyTorch's allocator of GPU memory held, and who asked for it: one snapshot of a process."""

from __future__ import annotations

from postmortem.facts.threads import Frame, Thread, own_frames
from postmortem.records import record


@record
class Place:
    """A line that asks for memory: of the user's own code where the stack has any."""

    function: str
    file: str | None
    line: int | None

    @property
    def words(self) -> str:
        """``forward (model.py:31)``."""
        file = (self.file or "").rpartition("/")[2]
        where = f"{file}:{self.line}" if self.line is not None else file
        return f"{self.function} ({where})" if where else self.function


def place_of(frames: tuple[Frame, ...]) -> Place | None:
    """Return the line that a stack is told by; None where no stack was recorded."""
    own = own_frames(Thread(tid=0, frames=frames)) or frames
    return Place(own[0].function, own[0].file, own[0].line) if own else None


@record
class Owner:
    """All memory that one line asked for."""

    place: Place | None
    """None where no stack was recorded: allocated before the recording began."""
    bytes: int
    blocks: int


@record
class Peak:
    """The moment of the recording at which most memory was allocated."""

    bytes: int
    owners: tuple[Owner, ...]
    """Those with most of it first."""


@record
class OutOfMemory:
    """An allocation that failed after all else was tried."""

    bytes: int
    """That were asked for."""
    free_bytes: int
    """That the GPU had left, as the driver said."""
    allocated_bytes: int
    """That were allocated at that moment."""
    frames: tuple[Frame, ...]
    """Innermost first; empty where no stack was recorded."""
    later_allocations: int
    """That succeeded afterwards: the program went on."""


@record
class Unfreed:
    """A line of whose blocks none was freed while the recording ran, and that went on and on."""

    owner: Owner
    first: float
    """When it first asked, as a share of the recording (0 to 1); `last` likewise."""
    last: float


@record
class DeviceMemory:
    """One GPU of the process."""

    device: int
    reserved_bytes: int
    """That PyTorch has from the driver."""
    allocated_bytes: int
    """Of these in use by tensors, as they asked for it."""
    rounding_bytes: int
    """Lost by rounding within blocks in use."""
    free_bytes: int
    """Of these in no use: what a new tensor may have if a hole is large enough."""
    largest_hole_bytes: int
    segments: int
    blocks: int
    expandable: bool
    """Whether any segment can grow (``expandable_segments:True``)."""
    owners: tuple[Owner, ...]
    """At the time of the snapshot, those with most first."""
    events: int
    """Of the recording; 0 where none was made."""
    peak: Peak | None = None
    failures: tuple[OutOfMemory, ...] = ()
    unfreed: tuple[Unfreed, ...] = ()


@record
class MemorySnapshot:
    """What ``torch.cuda.memory._dump_snapshot()`` wrote."""

    path: str
    rank: int | None
    """As the name of the file tells it."""
    devices: tuple[DeviceMemory, ...]

    @property
    def label(self) -> str:
        """``rank 3``, or the name of the file."""
        return f"rank {self.rank}" if self.rank is not None else self.path.rpartition("/")[2]


@record
class GpuMemory:
    """The snapshots that were read together."""

    snapshots: tuple[MemorySnapshot, ...]
