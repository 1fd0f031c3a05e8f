"""Who did it: what the frames of a batch say of the first NaN or Inf among them."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from postmortem.diagnose.numerics.near_edge import near_the_edge
from postmortem.facts.confidence import Confidence
from postmortem.facts.frames import Cell, CellKind, Frame, Note, Numbers, Phase
from postmortem.records import record, replace

_MASK_WORDS = ("mask", "bias")
LOOK_AT_DATA = "look at the data of this batch"
_MASKED_ROW = "a row that is masked altogether gives NaN in softmax"


class Origin(StrEnum):
    """Where bad numbers come from."""

    PRODUCER = "producer"
    """A module made them out of clean inputs and weights."""
    WEIGHT = "weight"
    """A weight was bad before the module ran."""
    BATCH = "batch"
    """They came into the model from outside."""
    BETWEEN = "between"
    """Code outside of all modules that are watched made them; the frame only received them."""
    GRADIENT = "gradient"
    STATE = "state"


@record
class FirstBad:
    """The first frame with NaN or Inf that no mask explains, and what it says of their origin."""

    origin: Origin
    module: str
    class_name: str
    cell: str
    batch: int
    frame: int
    nan_count: int
    inf_count: int
    numel: int
    first_index: int | None
    dtype: str
    confidence: Confidence
    """Of the origin: the numbers are bad for certain."""
    hints: tuple[str, ...] = ()
    rank: int = 0
    names: tuple[str, ...] = ()
    """Other names of the same module or weight."""
    unseen: bool = False
    """Whether nothing but outputs was recorded of the module, as in compiled code."""
    in_place: bool = False
    """Whether it is an input that the module gave back, and may have spoiled itself."""
    summed: bool = False
    """Whether it is a gradient that ranks had summed before it was seen: any may have made it."""
    beside: str = ""
    """What else is bad that no frame shows, and may be what bad numbers were read from."""

    def sentence(self, ranks: int = 1) -> str:
        """Return what happened in one sentence."""
        where = f" of rank {self.rank}" if ranks > 1 else ""
        if where and self.summed:
            where = f", as rank {self.rank} has it after the sum over all ranks"
        return f"{self.brief}: {self.extent}{where}"

    @property
    def extent(self) -> str:
        """How many values of how many are bad, and in which batch."""
        bad = f"{_counted(self.nan_count, self.inf_count)} of {self.numel:,} {self.dtype} values"
        return f"{bad} in batch {self.batch}"

    @property
    def brief(self) -> str:
        """What went bad, and by what, without numbers."""
        module = f"{self.module or 'the model'} ({self.class_name})"
        if self.unseen:
            return f"{self.cell} of {module} was the first to be bad"
        if self.in_place:
            return f"{self.cell} of {module} was made bad in place, by it or right before it"
        read = f", or read it from {self.beside}, which is bad too" if self.beside else ""
        said = {
            Origin.PRODUCER: f"{module} made {self.cell} bad out of clean inputs and weights{read}",
            Origin.WEIGHT: f"{self.cell} of {module} was bad before it ran",
            Origin.BATCH: f"{self.cell} came into {module} bad from outside",
            Origin.BETWEEN: f"{self.cell} of {module} was made bad by code between modules{read}",
            Origin.GRADIENT: f"the gradient of {self.cell} of {module} went bad",
            Origin.STATE: f"{self.cell} of {module} in the optimizer's state is bad",
        }
        return said[self.origin]


def _counted(nans: int, infs: int) -> str:
    return " and ".join(
        f"{count:,} {name}" for count, name in ((nans, "NaN"), (infs, "Inf")) if count
    )


def is_bad(cell: Cell) -> bool:
    """Return whether a cell holds NaN or Inf that no mask explains."""
    return cell.numbers is not None and not cell.masked and not cell.numbers.is_finite


def looks_like_mask(name: str, numbers: Numbers) -> bool:
    """Return whether infinities are those of a mask as far as name and counts tell.

    Nothing but zeros and Inf, or a name with ``mask`` or ``bias`` in it. The signs are not known
    here: whoever has the values looks at them first.
    """
    if numbers.nan_count or not numbers.inf_count:
        return False
    named = any(word in name.lower() for word in _MASK_WORDS)
    only = numbers.zero_count > 0 and numbers.inf_count + numbers.zero_count == numbers.numel
    return named or only


def first_bad(frames: Sequence[Frame], *, rank: int = 0) -> FirstBad | None:
    """Return what went bad first in these frames, the oldest first; None if nothing did."""
    for at, frame in enumerate(frames):
        bad = [cell for cell in frame.cells if is_bad(cell)]
        if bad:
            return _judge(frame, bad, frames[:at], rank)
    return None


def _judge(frame: Frame, bad: list[Cell], before: Sequence[Frame], rank: int) -> FirstBad:
    origin, cell, confidence = _origin(frame, bad)
    if _only_outputs(frame):
        clean = any(f.batch == frame.batch and f.phase is Phase.FORWARD for f in before)
        confidence = Confidence.LIKELY if clean else Confidence.POSSIBLE
    numbers = cell.numbers
    assert numbers is not None
    return FirstBad(
        origin,
        frame.module,
        frame.class_name,
        cell.name,
        frame.batch,
        frame.number,
        numbers.nan_count,
        numbers.inf_count,
        numbers.numel,
        numbers.first_nonfinite,
        numbers.dtype,
        confidence,
        tuple(_hints(origin, frame, cell, before)),
        rank,
        unseen=_only_outputs(frame),
        in_place=origin is Origin.BETWEEN and cell.note is Note.IN_PLACE,
        summed=origin is Origin.GRADIENT and cell.note is Note.SHARD,
    )


def read_outside(
    found: FirstBad,
    module: str,
    class_name: str,
    cell: Cell,
    confidence: Confidence,
    before: Sequence[Frame],
) -> FirstBad:
    """Return what was found, but of a weight that was read without a call of its module."""
    clean = clean_batch(module, cell.name, [f for f in before if f.number < found.frame])
    where = f"{found.module or 'the model'} ({found.class_name})"
    return replace(
        _in_cell(found, module, class_name, cell),
        origin=Origin.WEIGHT,
        confidence=confidence,
        hints=(f"it shows first in {found.cell} of {where}", weight_hint(found.batch, clean)),
        unseen=False,
        in_place=False,
    )


def with_beside(found: FirstBad, module: str, class_name: str, cell: Cell) -> FirstBad:
    """Return what was found, less sure, and what is bad beside it."""
    name = cell.name if cell.name.startswith("input[") else f"{module}.{cell.name}".lstrip(".")
    numbers = cell.numbers
    assert numbers is not None
    bad = f"{_counted(numbers.nan_count, numbers.inf_count)} of {numbers.numel:,} values"
    hint = f"{name} (of {class_name}) is bad too, {bad}: it is the cause, or what this call left"
    sure = Confidence.LIKELY if found.confidence == Confidence.CERTAIN else found.confidence
    return replace(found, confidence=sure, hints=(hint, *found.hints), beside=name)


def before_sum(found: FirstBad, class_name: str, cell: Cell) -> FirstBad:
    """Return a gradient that ranks had summed, as the bad gradient that this rank's loss sent."""
    weight = f"{found.module}.{found.cell}".lstrip(".")
    hints = (
        "it came into the backward pass of this rank: its loss made it, or what lies between the "
        "loss and the model",
        f"{weight} was first to have it after the sum over all ranks",
    )
    return replace(_in_cell(found, "", class_name, cell), hints=hints, summed=False)


def _in_cell(found: FirstBad, module: str, class_name: str, cell: Cell) -> FirstBad:
    """Return what was found with the place and the numbers of another cell."""
    numbers = cell.numbers
    assert numbers is not None
    return replace(
        found,
        module=module,
        class_name=class_name,
        cell=cell.name,
        nan_count=numbers.nan_count,
        inf_count=numbers.inf_count,
        numel=numbers.numel,
        first_index=numbers.first_nonfinite,
        dtype=numbers.dtype,
    )


def from_batch(found: FirstBad, came: FirstBad, frames: Sequence[Frame]) -> FirstBad | None:
    """Return what came into the model if it is what was `found` in a module's input.

    Where modules gave clean numbers before, the model may have replaced the data's NaN itself, as
    it does for values that are missing: then it is no more than likely.
    """
    if not came.nan_count and found.cell != came.cell:
        return None
    first = any(f.number == found.frame and f.opens_batch for f in frames)
    facts = [(f.nan_count, f.inf_count, f.numel, f.first_index) for f in (found, came)]
    if first or not found.module or facts[0] == facts[1]:
        return replace(came, hints=(LOOK_AT_DATA,))
    where = f"{found.module} ({found.class_name})"
    hint = (
        f"it shows first in {found.cell} of {where}, after modules with clean numbers: if the "
        "model replaces NaN in its data, look at the code that calls that"
    )
    return replace(came, confidence=Confidence.LIKELY, hints=(LOOK_AT_DATA, hint))


def _only_outputs(frame: Frame) -> bool:
    """Return whether a call is known by its outputs alone: what it was given may be to blame."""
    return frame.phase is Phase.FORWARD and all(c.kind is CellKind.OUTPUT for c in frame.cells)


def _origin(frame: Frame, bad: list[Cell]) -> tuple[Origin, Cell, Confidence]:
    kinds = {cell.kind: cell for cell in reversed(bad)}  # the first of each kind
    if frame.phase is Phase.BATCH:
        return Origin.BATCH, bad[0], Confidence.CERTAIN
    if CellKind.STATE in kinds:
        return Origin.STATE, kinds[CellKind.STATE], Confidence.CERTAIN
    if CellKind.GRADIENT in kinds:
        return Origin.GRADIENT, kinds[CellKind.GRADIENT], Confidence.CERTAIN
    if CellKind.WEIGHT in kinds:
        return Origin.WEIGHT, kinds[CellKind.WEIGHT], Confidence.CERTAIN
    if CellKind.INPUT in kinds:
        cell = kinds[CellKind.INPUT]
        return (
            Origin.BETWEEN,
            cell,
            Confidence.POSSIBLE if cell.note is Note.IN_PLACE else Confidence.LIKELY,
        )
    unread = any(cell.note is Note.UNREAD for cell in frame.cells)
    masked = any(cell.masked for cell in frame.cells if cell.kind is not CellKind.OUTPUT)
    unsure = unread or masked or _has_shards(frame) or bad[0].note is Note.ONLY_NEGATIVE
    return Origin.PRODUCER, bad[0], Confidence.LIKELY if unsure else Confidence.CERTAIN


def _has_shards(frame: Frame) -> bool:
    """Return whether of a weight only one rank's part was read."""
    return any(c.kind is CellKind.WEIGHT and c.note is Note.SHARD for c in frame.cells)


def _hints(origin: Origin, frame: Frame, cell: Cell, before: Sequence[Frame]) -> Iterable[str]:
    assert cell.numbers is not None
    if _only_outputs(frame):
        yield (
            "only outputs were recorded of it, as in compiled code: the batch's data or a weight "
            "may be what is bad; run this batch without torch.compile to see them"
        )
    if origin is Origin.PRODUCER:
        if cell.numbers.nan_count and any(c.masked for c in frame.cells):
            yield f"an input holds the -inf of a mask: {_MASKED_ROW}"
        if cell.note is Note.ONLY_NEGATIVE:
            yield (
                "all that is bad is -inf: the log of 0, or a mask that the module makes itself; if "
                "it is meant, fill with torch.finfo(dtype).min, which no monitor takes for a fault"
            )
        if "loss" in cell.name and not frame.module:
            yield (
                "it is the loss itself: look at the labels (does any count?) and at the loss "
                "function"
            )
        if _has_shards(frame):
            yield "only this rank's shards of its weights were read: those of others may be bad"
        yield from near_the_edge([*before, frame])
    elif origin is Origin.BETWEEN:
        last = next((f for f in reversed(before) if f.phase is Phase.FORWARD), None)
        after = f", after {last.module or 'the model'} ({last.class_name})" if last else ""
        module = frame.module or "the model"
        if cell.note is Note.IN_PLACE:
            yield f"{module} gives back the memory that it was given: look at what it writes there"
        yield f"look at the code that calls {module}{after}"
        if not cell.numbers.nan_count and "softmax" in frame.class_name.lower():
            yield f"if these are the -inf of a mask, {_MASKED_ROW}"
        yield from near_the_edge(before)
    elif origin is Origin.WEIGHT:
        yield weight_hint(frame.batch, clean_batch(frame.module, cell.name, before))
    elif origin is Origin.GRADIENT:
        yield from near_the_edge(before)


def clean_batch(module: str, cell: str, before: Sequence[Frame]) -> int | None:
    """Return the last batch in which a weight of a module was read and held neither NaN nor Inf."""
    for frame in reversed(before):
        if frame.module != module:
            continue
        for one in frame.cells:
            named = one.kind is CellKind.WEIGHT and one.name == cell
            if named and one.numbers is not None and one.numbers.is_finite:
                return frame.batch
    return None


def weight_hint(batch: int, clean: int | None) -> str:
    """Return when a weight became bad that is bad in `batch` and was `clean` in that one before."""
    if clean == batch:
        return "it was clean earlier in this batch: something wrote to it while the batch ran"
    if clean is not None and clean == batch - 1:
        return "it became bad after the batch before: as a rule by the step of the optimizer"
    if clean is not None:
        return (
            f"it was clean in batch {clean}, and was not looked at since: as a rule a step of the "
            "optimizer made it bad"
        )
    if batch == 0:
        return "it was bad when training began: scan the checkpoint that was loaded"
    return (
        "nothing shows it clean before: it was bad in the checkpoint that was loaded (scan it), or "
        "was written to since, as a rule by a step of the optimizer"
    )
