"""Tensors in files, and what one pass over each of them found."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.records import record


@record
class Part:
    """Which part of a tensor lies in one place: a shard of it."""

    whole: tuple[int, ...]
    """Shape of the tensor."""
    at: tuple[int, ...]
    """Index of its first value."""
    shape: tuple[int, ...]
    """Of the part."""


@record
class TensorPlace:
    """Where the values of a tensor lie in a file, as the file itself says."""

    name: str
    """Path through the file's own names: ``model.layers.0.weight``."""
    dtype: str
    """As PyTorch and NumPy name it: ``bfloat16``."""
    shape: tuple[int, ...]
    offset: int
    """Of the first value, in bytes from the beginning of the file."""
    strides: tuple[int, ...] | None = None
    """In elements; None for C order."""
    part: Part | None = None
    """None for a whole tensor."""
    packed: str | None = None
    """The record of the archive that has to be unpacked; `offset` is then one in the record."""
    held: bytes | bytearray | None = None
    """The values, if a pickle holds them and they do not lie in the file as they are."""


@record
class ScannedTensor:
    """What one pass over the values found; counts of complex tensors are of components."""

    name: str
    file: str
    dtype: str
    shape: tuple[int, ...]
    numel: int
    abs_min: float
    """The least |x| of all but NaN; nan if nothing is left, as below."""
    abs_max: float
    abs_min_nonzero: float
    abs_max_finite: float
    nan_count: int
    inf_count: int
    zero_count: int
    subnormal_count: int
    first_nonfinite: int | None
    """Flat index in C order."""

    @property
    def bad_count(self) -> int:
        """How many values are NaN or infinite."""
        return self.nan_count + self.inf_count

    @property
    def is_floating(self) -> bool:
        """Whether its values could be NaN or infinite at all."""
        return self.dtype.startswith(("float", "bfloat", "complex"))


MOST_NAN_NUMBERS = 1000
"""Of a file; a history of losses may hold more of them than are of use."""


@record
class NanNumber:
    """A plain number of a checkpoint that is NaN: a loss, a metric, a learning rate."""

    name: str
    """Path to it, as of a tensor."""
    file: str


@record
class Tensors:
    """All tensors of a set of files, in the order of the files."""

    items: tuple[ScannedTensor, ...]

    def __iter__(self) -> Iterator[ScannedTensor]:
        return iter(self.items)

    @property
    def bad(self) -> tuple[ScannedTensor, ...]:
        """Those that hold NaN or Inf."""
        return tuple(tensor for tensor in self.items if tensor.bad_count)
