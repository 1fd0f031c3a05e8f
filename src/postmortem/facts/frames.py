"""What a model's modules read and wrote: one frame for each call of a module.

Frames are made live by the monitor and out of a flight file by its reader; whoever judges or prints
them need not know which. They are plain slotted classes: a training step makes hundreds of them,
and `dataclasses` would take longer to import than all else of a report on logs.
"""

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, TypeAlias, Union

from postmortem.records import record

if TYPE_CHECKING:
    from postmortem._scan import ScanResult


class CellKind(IntEnum):
    """What a cell holds the numbers of; the numbers are those of a flight file."""

    WEIGHT = 1
    INPUT = 2
    OUTPUT = 3
    GRADIENT = 4
    STATE = 5


class Phase(IntEnum):
    """What ran when a frame was made; the numbers are those of a flight file."""

    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    BATCH = 4
    """What came into the model from outside."""


class Note(StrEnum):
    """What is known of a cell beside its numbers, in the words that flight files have for it."""

    MASK = "-inf mask"
    ONLY_NEGATIVE = "-inf only"
    """An output: log of 0 gives that, and so does a mask that the module makes itself."""
    READ_OUTSIDE = "read outside of its module"
    """A weight or buffer that explains a frame before it: nobody called its module."""
    BESIDE = "bad beside it"
    """It is bad too, and may be the cause or a consequence."""
    BEFORE_SUM = "before the sum"
    """The gradient of what the model gave on this rank, which no other rank had a part in."""
    IN_PLACE = "written in place, and given back"
    """A bad input whose memory the output has: the module may have made it bad itself."""
    INNER = "values"
    """Of a sparse or nested tensor only what it holds was read."""
    SHARD = "shard"
    """Of a distributed tensor this rank's part was read; which one stands behind it."""
    UNREAD = "no values:"
    """A tensor that nothing could be read of; why stands behind it."""


Numbers: TypeAlias = Union["ScanResult", "Reading"]
"""What one pass over a tensor found, live or out of a file."""


@record
class Reading:
    """The numbers of one tensor as a flight file holds them."""

    dtype: str
    numel: int
    nan_count: int
    inf_count: int
    zero_count: int
    subnormal_count: int
    first_nonfinite: int | None
    abs_min: float
    abs_max: float
    abs_min_nonzero: float
    abs_max_finite: float

    @property
    def is_finite(self) -> bool:
        """Whether there is neither NaN nor Inf."""
        return not (self.nan_count or self.inf_count)


class Cell:
    """One tensor of a frame, or what stood in its place."""

    __slots__ = ("detail", "kind", "masked", "name", "note", "numbers", "saturated")

    kind: CellKind
    name: str
    """``weight``, ``input[0]``, ``input[attention_mask]``, ``output[1][0]``."""
    numbers: Numbers | None
    note: Note | None
    detail: str
    """What stands behind the note, or in the tensor's place: ``None``, ``not a tensor``."""
    masked: bool
    """Whether its infinities are those of a mask, and no fault."""
    saturated: int | None
    """Of fp8: how many values are the largest that there is."""

    def __init__(
        self,
        kind: CellKind,
        name: str,
        numbers: Numbers | None,
        note: Note | None = None,
        detail: str = "",
        masked: bool = False,
        saturated: int | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.numbers = numbers
        self.note = note
        self.detail = detail
        self.masked = masked
        self.saturated = saturated

    @property
    def remark(self) -> str:
        """The note with its detail, as flight files and people read it."""
        return " ".join(filter(None, (self.note, self.detail)))


class Frame:
    """One call of a module, or what a step of the optimizer found of it."""

    __slots__ = (
        "batch", "cells", "class_name", "module", "number", "opens_batch", "phase", "time",
    )  # fmt: skip

    number: int
    """Counts the frames of a process, from 1."""
    batch: int
    module: str
    """Fully qualified; empty for the model itself."""
    class_name: str
    cells: list[Cell]
    phase: Phase
    opens_batch: bool
    """Whether it is the first frame of its batch."""
    time: float
    """When a flight file says that it was written, in seconds since 1970; 0 where nothing does."""

    def __init__(
        self,
        number: int,
        batch: int,
        module: str,
        class_name: str,
        cells: list[Cell],
        phase: Phase = Phase.FORWARD,
        opens_batch: bool = False,
        time: float = 0.0,
    ) -> None:
        self.number = number
        self.batch = batch
        self.module = module
        self.class_name = class_name
        self.cells = cells
        self.phase = phase
        self.opens_batch = opens_batch
        self.time = time


@record
class FlightRecorder:
    """Which process wrote a flight file, and how it ended as far as the file knows."""

    rank: int
    world_size: int
    pid: int
    host: str
    started: float
    """Seconds since 1970, as all times here."""
    last_written: float | None
    batch: int | None
    """The last one that began."""
    ended: str | None
    """``finished``, ``stopped`` (numbers went bad), or None: it was still running."""


@record
class Flight:
    """A flight file: the last frames of a training process."""

    path: str
    recorder: FlightRecorder
    frames: tuple[Frame, ...]
    """In the order in which they were made."""
    records: int
    """How many cells the process wrote in all; the file keeps the last of them."""
    unreadable_records: int
    size_bytes: int = 0
