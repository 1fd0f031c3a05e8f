"""PyTorch's flight recorder: the last collectives that each rank called."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from postmortem.facts.threads import Frame
from postmortem.records import record

# Backends that never note an end: a call of theirs that is retired has ended, or failed.
_WITHOUT_ENDS = frozenset({"gloo", "mpi", "ucc"})


@record
class Collective:
    """What calls of a rank have in common; ranks that call the same share one object."""

    group: str
    """Name of the process group, equal on all ranks: ``"0"``."""
    group_words: str
    """What the program calls it: ``"default_pg"``."""
    group_number: int | None
    """The group among those of this process: ``pg_id``."""
    operation: str
    """``"all_reduce"``, without the backend's name; ``"send 0->3"`` has places in the group."""
    backend: str
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    state: str
    """``"scheduled"``, ``"started"`` or ``"completed"``; gloo never goes beyond the first."""
    timeout_ms: int
    """0 where the dump does not say."""
    retired: bool
    """The process looks at it no more: it has ended, or failed."""
    is_p2p: bool
    frames: tuple[Frame, ...] = ()
    """Python frames of the call, innermost first."""

    @property
    def notes_ends(self) -> bool:
        """Return whether its backend tells success from failure."""
        return self.backend not in _WITHOUT_ENDS

    @property
    def finished(self) -> bool:
        """Return whether it has ended; of gloo, whether it has ended or failed."""
        return self.state == "completed" or (self.retired and not self.notes_ends)

    @property
    def site(self) -> Frame | None:
        """Return the innermost frame outside of PyTorch's own wrappers."""
        return next((f for f in self.frames if "torch/distributed/" not in (f.file or "")), None)


@record
class RecordedGroup:
    """A process group as a dump lists it."""

    name: str
    words: str
    """What the program calls it: ``"TENSOR_MODEL_PARALLEL_GROUP"``."""
    members: tuple[int, ...]
    """Ranks in the group's own order; empty where the dump does not say (gloo)."""


@record
class GroupStatus:
    """How far a process has come in one of its groups; -1 where it does not say."""

    group_number: int
    enqueued: int
    started: int
    completed: int


@record
class Recorder:
    """The dump of one rank. Its calls are columns: a job has millions of them."""

    rank: int
    where: str
    version: str
    shapes: tuple[Collective, ...]
    shape_of: array[int]
    """Of each call, in the order in which they were called, its place in `shapes`; only the last
    ones, as many as the ring holds. Dumps of active calls have the unfinished ones."""
    numbers: array[int]
    """Of each call its number in its group; of a point-to-point call that of its own kind."""
    created: array[int]
    """Nanoseconds since 1970 by the host's clock; 0 where the dump does not say."""
    started: array[int]
    """When the device was seen to have begun it; 0 where it was not."""
    groups: tuple[RecordedGroup, ...]
    status: tuple[GroupStatus, ...] = ()
    host: str | None = None
    """As the file's name tells."""
    written: float | None = None
    """Seconds since 1970: when the file was written last."""
    outlived: bool = False
    """Logs of the job were written to later."""
    goes_on: bool = False
    """They tell of work later than it, or of a next line that was not yet due."""

    @property
    def calls(self) -> int:
        """Return how many calls there are."""
        return len(self.shape_of)

    def call(self, at: int) -> tuple[int, Collective]:
        """Return the number and the shape of a call; -1 is the last one."""
        return self.numbers[at], self.shapes[self.shape_of[at]]

    def rows(self) -> Iterator[tuple[int, Collective]]:
        """Yield number and shape of every call."""
        return ((n, self.shapes[s]) for n, s in zip(self.numbers, self.shape_of, strict=True))
