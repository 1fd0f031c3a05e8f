"""What stands near the limits of its type: the next doubling of it overflows, or it is lost."""

from collections.abc import Sequence

from postmortem import thresholds
from postmortem.facts.dtypes import RANGES
from postmortem.facts.frames import Cell, CellKind, Frame

_WIDE = ("float32", "float64", "bfloat16")


def near_the_edge(frames: Sequence[Frame]) -> list[str]:
    """Return what stands near the limits of its type in the last frames, the latest first.

    Of float16: magnitudes from half of 65504 on. Of fp8: how many values are saturated. Of
    gradients: how many became zero or subnormal.
    """
    found: dict[str, None] = {}
    for frame in reversed(frames):
        for cell in frame.cells:
            said = _edge(cell)
            if said:
                found.setdefault(f"{frame.module or 'the model'} {cell.name} {said}")
    return list(found)[:3]


def _edge(cell: Cell) -> str | None:
    numbers = cell.numbers
    if numbers is None or not numbers.numel or cell.masked:
        return None
    limit = RANGES.get(numbers.dtype)
    if limit is None:
        return None
    if cell.saturated:
        share = cell.saturated / numbers.numel
        return f"is saturated: {share:.1%} of its values are {limit.largest:g}"
    largest = numbers.abs_max_finite
    filled = largest == limit.largest and numbers.abs_min_nonzero == largest  # a mask of finfo.min
    if not limit.saturates and largest >= thresholds.EDGE_SHARE * limit.largest and not filled:
        share = largest / limit.largest
        return f"reached {largest:.3g}, {share:.0%} of what {numbers.dtype} holds"
    lost = numbers.subnormal_count + numbers.zero_count
    is_gradient = cell.kind is CellKind.GRADIENT
    if is_gradient and numbers.dtype not in _WIDE and numbers.subnormal_count:
        share = lost / numbers.numel
        if share >= thresholds.UNDERFLOW_SHARE:
            return f"underflows: {share:.0%} of its values are zero or subnormal"
    return None
