"""Where two trainings part: the first call of a module whose numbers are not the same in both.

Only what the monitor keeps is compared: extremes and counts, not values. Two tensors with the same
extremes are the same here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from postmortem.facts.frames import Cell, CellKind, Frame, Numbers, Phase
from postmortem.records import record

_STEPS = {"bfloat16": 2**-7, "float16": 2**-10, "float8_e4m3fn": 2**-3, "float8_e5m2": 2**-2}
"""How far apart neighbours are, relative to their size."""
_ROUNDINGS = 4

Key = tuple[int, Phase, str, int]


@record
class Difference:
    """One tensor that is not the same in both."""

    batch: int
    """In A."""
    phase: str
    """``forward``, ``backward``, ``optimizer`` or ``batch``."""
    module: str
    class_name: str
    kind: str
    """``weight``, ``input``, ``output``, ``gradient`` or ``state``."""
    name: str
    what: str
    """``"abs max 1.0e+00 in A, 2.0e+00 in B"``."""
    relative: float
    """Of the largest |x|: 0 where only other numbers differ, inf where it is not finite in one."""


@record
class Parting:
    """What a comparison has found."""

    tolerance: float
    compared: int
    """Calls of modules that are in both."""
    only_a: tuple[str, ...]
    """Modules whose calls are in the first alone."""
    only_b: tuple[str, ...]
    first: Difference | None
    """The first that differs by more than the tolerance."""
    beside: tuple[Difference, ...]
    """What else differs so in the same call."""
    unequal: Difference | None
    """The first that differs at all."""
    worst: tuple[Difference, ...]
    """Those that differ most, a row for each module."""


def part(
    a: Sequence[Frame],
    b: Sequence[Frame],
    *,
    tolerance: float,
    batches: tuple[int, int] | None = None,
) -> Parting:
    """Compare calls that have batch, phase, module and place in common, in the order of `a`.

    `batches` compares one batch of `a` with one of `b`.
    """
    left, right = _keyed(a, batches and batches[0]), _keyed(b, batches and batches[1])
    first: list[Difference] = []
    unequal: Difference | None = None
    worst: dict[str, Difference] = {}
    compared = 0
    for key, frame in left.items():
        other = right.get(key)
        if other is None:
            continue
        compared += 1
        found = list(_differences(frame, other))
        if found and unequal is None:
            unequal = found[0][0]
        beyond = [row for row, allowed in found if row.relative > max(tolerance, allowed)]
        if beyond and not first:
            first = beyond
        for row in beyond:
            if row.relative > worst.get(row.module, row).relative or row.module not in worst:
                worst[row.module] = row
    shared = left.keys() & right.keys()
    return Parting(
        tolerance=tolerance,
        compared=compared,
        only_a=_alone(left, shared, right),
        only_b=_alone(right, shared, left),
        first=first[0] if first else None,
        beside=tuple(first[1:]),
        unequal=unequal,
        worst=tuple(sorted(worst.values(), key=lambda row: -row.relative)[:20]),
    )


def _keyed(frames: Sequence[Frame], batch: int | None) -> dict[Key, Frame]:
    """Return the calls by what they are; those of a chosen batch as if it were batch 0."""
    seen: Counter[tuple[int, Phase, str]] = Counter()
    found: dict[Key, Frame] = {}
    for frame in frames:
        if batch is not None and frame.batch != batch:
            continue
        number = frame.batch if batch is None else 0
        place = (number, frame.phase, frame.module)
        found[*place, seen[place]] = frame
        seen[place] += 1
    return found


def _alone(own: dict[Key, Frame], shared: set[Key], other: dict[Key, Frame]) -> tuple[str, ...]:
    """Return modules that only one has, in phases of batches that both have."""
    known = {key[:2] for key in other}
    names = (key[2] for key in own if key not in shared and key[:2] in known)
    return tuple(dict.fromkeys(name or "(model)" for name in names))[:50]


def _differences(a: Frame, b: Frame) -> Iterator[tuple[Difference, float]]:
    """Yield what differs in a call, and how much may without a meaning: weights, inputs, others."""
    others = {(cell.kind, cell.name): cell for cell in b.cells}
    for cell in sorted(a.cells, key=lambda cell: cell.kind):
        other = others.get((cell.kind, cell.name))
        if other is None or cell.numbers is None or other.numbers is None:
            continue
        what = _compared(cell.numbers, other.numbers)
        if what is not None:
            yield _difference(a, cell, *what), _allowed(cell.numbers.dtype, other.numbers.dtype)


def _difference(frame: Frame, cell: Cell, what: str, relative: float) -> Difference:
    return Difference(
        batch=frame.batch,
        phase=frame.phase.name.lower(),
        module=frame.module,
        class_name=frame.class_name,
        kind=CellKind(cell.kind).name.lower(),
        name=cell.name,
        what=what,
        relative=relative,
    )


def _compared(a: Numbers, b: Numbers) -> tuple[str, float] | None:
    """Return how two tensors differ, and by how much of the larger extreme; None: not at all.

    Without a data type it is out of a printed trace, which has extremes alone.
    """
    printed = not (a.dtype and b.dtype)
    if not printed and a.numel != b.numel:
        return f"{a.numel} elements in A, {b.numel} in B", math.inf
    for name, kind in (("nan_count", "NaN"), ("inf_count", "Inf")):
        mine, theirs = getattr(a, name), getattr(b, name)
        if printed and a.nan_count and b.nan_count:
            return None
        if bool(mine) != bool(theirs):
            return f"{mine} {kind} in A, {theirs} in B", math.inf
    large, other = a.abs_max_finite, b.abs_max_finite
    relative = 0.0
    if printed and not (math.isfinite(large) and math.isfinite(other)):
        return None
    if large != other and not (math.isnan(large) and math.isnan(other)):
        top = max(abs(large), abs(other))
        relative = abs(large - other) / top if math.isfinite(top) and top else math.inf
        return f"abs max {large:.3e} in A, {other:.3e} in B", relative
    beside = ("abs_min", "abs_min_nonzero", "zero_count", "nan_count", "inf_count")
    for name in () if printed else beside:
        mine, theirs = getattr(a, name), getattr(b, name)
        if mine != theirs and not (mine != mine and theirs != theirs):
            return f"{name.replace('_', ' ')} {mine:.6g} in A, {theirs:.6g} in B", relative
    return None


def _allowed(a: str, b: str) -> float:
    """Return how much rounding alone may make where the data types differ."""
    return 0.0 if a == b else _ROUNDINGS * max(_STEPS.get(a, 0.0), _STEPS.get(b, 0.0))
