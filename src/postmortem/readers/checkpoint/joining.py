"""One result for a tensor that was scanned part by part."""

import math
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from postmortem.facts.tensors import Part, ScannedTensor
from postmortem.records import replace


def joined(items: Iterable[tuple[ScannedTensor, Part | None]]) -> list[ScannedTensor]:
    """Return the tensors, with the parts of each one made into one; the order is kept."""
    found: dict[object, ScannedTensor] = {}
    for number, (tensor, part) in enumerate(items):
        if part is None:
            found[number] = tensor
            continue
        first = tensor.first_nonfinite
        if first is not None:
            first = index_in_whole(first, part)
        tensor = replace(tensor, shape=part.whole, first_nonfinite=first)
        key = (PurePath(tensor.file).parent, tensor.name)
        before = found.get(key)
        found[key] = tensor if before is None else together(before, tensor)
    return list(found.values())


def index_in_whole(index: int, part: Part) -> int:
    """Return where the value at a flat index of a part stands in the whole, in C order."""
    flat, step = 0, 1
    for size, begin, whole in reversed(list(zip(part.shape, part.at, part.whole, strict=True))):
        index, here = divmod(index, size)
        flat += (begin + here) * step
        step *= whole
    return flat


def together(one: ScannedTensor, other: ScannedTensor) -> ScannedTensor:
    """Return what both found; the file is that of the first bad value, where there is one."""
    firsts = [t for t in (one, other) if t.first_nonfinite is not None]
    first = min(firsts, key=lambda t: t.first_nonfinite or 0) if firsts else one
    return replace(
        one,
        file=first.file,
        numel=one.numel + other.numel,
        abs_min=_least((one.abs_min, other.abs_min)),
        abs_max=_largest((one.abs_max, other.abs_max)),
        abs_min_nonzero=_least((one.abs_min_nonzero, other.abs_min_nonzero)),
        abs_max_finite=_largest((one.abs_max_finite, other.abs_max_finite)),
        nan_count=one.nan_count + other.nan_count,
        inf_count=one.inf_count + other.inf_count,
        zero_count=one.zero_count + other.zero_count,
        subnormal_count=one.subnormal_count + other.subnormal_count,
        first_nonfinite=first.first_nonfinite,
    )


def _least(values: Sequence[float]) -> float:
    return min((v for v in values if not math.isnan(v)), default=math.nan)


def _largest(values: Sequence[float]) -> float:
    return max((v for v in values if not math.isnan(v)), default=math.nan)
