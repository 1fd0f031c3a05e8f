"""Several checkpoints of one model: which is the last clean one, and where the bad values begin."""

from __future__ import annotations

from postmortem import thresholds
from postmortem.facts.tensors import ScannedTensor, Tensors
from postmortem.patterns import Pattern
from postmortem.records import record

_NUMBER = Pattern(r"\d+")
# Lightning's ModelCheckpoint and EarlyStopping, torchmetrics' MinMetric and MaxMetric.
_UNMEASURED = Pattern(
    r"(?i)(?:^|[._/])(?:callbacks?|kth_value|best\w*|\w*_score|m(?:in|ax)_val\w*)\b"
)


@record
class Series:
    """Checkpoints in the order in which they were written, as the numbers in their names say."""

    files: tuple[str, ...]
    last_clean: str | None
    """The newest before the first bad one; None where the first is bad already."""
    first_bad: str | None
    clean_again: str | None
    """A later one without bad values: what was bad did not stay."""


def series(tensors: Tensors) -> Series | None:
    """Return the series that the files are; None for one file, for shards and for other models."""
    names: dict[str, set[str]] = {}
    for tensor in tensors:
        names.setdefault(tensor.file, set()).add(tensor.name)
    # A mask is the same in each of them.
    bad = {one.file for one in tensors.bad if not is_meant(one)} or {t.file for t in tensors.bad}
    if len(names) < 2 or not _of_one_model(list(names.values())):
        return None
    files = _in_order(list(names))
    if files is None:
        return None
    first = next((file for file in files if file in bad), None)
    if first is None:
        return Series(files, files[-1], None, None)
    place = files.index(first)
    later = next((file for file in files[place + 1 :] if file not in bad), None)
    return Series(files, files[place - 1] if place else None, first, later)


def is_meant(tensor: ScannedTensor) -> bool:
    """Return whether Inf may be there on purpose: in a mask, or before anything was measured."""
    unmeasured = tensor.numel == 1 and _UNMEASURED.search(tensor.name) is not None
    return not tensor.nan_count and (is_mask(tensor) or unmeasured)


def is_mask(tensor: ScannedTensor) -> bool:
    """Return whether a tensor is a mask by its name."""
    return any(word in tensor.name.lower() for word in ("mask", "attn_bias", "causal"))


def where_it_began(tensors: Tensors, found: Series | None) -> Tensors:
    """Return the tensors of a series' first bad checkpoint; all where that is not a question."""
    if found is None or found.first_bad is None:
        return tensors
    return Tensors(tuple(one for one in tensors if one.file == found.first_bad))


def _of_one_model(names: list[set[str]]) -> bool:
    first = names[0]
    return all(
        len(first & other) >= thresholds.SAME_MODEL_SHARE * max(len(first), len(other))
        for other in names[1:]
    )


def _in_order(files: list[str]) -> tuple[str, ...] | None:
    """Return the files by the one number in which their paths differ; None where there is none."""
    numbers = [[int(found) for found in _NUMBER.findall(file)] for file in files]
    shapes = {_NUMBER.sub("#", file) for file in files}
    if len(shapes) != 1:
        return None
    differ = [at for at in range(len(numbers[0])) if len({row[at] for row in numbers}) > 1]
    if not differ:
        return None
    # step_10/model_0.pt and step_20/model_0.pt: the outermost number that differs is the step.
    order = sorted(zip(numbers, files, strict=True), key=lambda row: row[0][differ[0]])
    return tuple(file for _, file in order)
