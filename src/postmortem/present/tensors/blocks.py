"""The report on checkpoints, block by block."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from postmortem.facts.tensors import MOST_NAN_NUMBERS, NanNumber, ScannedTensor, Tensors
from postmortem.present.tensors.body import worst_first
from postmortem.report.blocks import Block, KeyValues, Note, Table
from postmortem.text import counted

_ROWS_SHOWN = 20
_NUMBERS_SHOWN = 5


def scan_blocks(
    tensors: Tensors, nan_numbers: Sequence[NanNumber] = (), *, verbose: bool
) -> tuple[Block, ...]:
    """Return the worst tensors, then totals and the plain numbers that are NaN."""
    numbers = _numbers(nan_numbers)
    if not tensors.items:
        return (Note("the files hold no tensors"), *numbers)
    rows = worst_first(tensors)
    bad = [tensor for tensor in rows if tensor.bad_count]
    shown = rows if verbose else rows[:_ROWS_SHOWN]
    files = _short_names({tensor.file for tensor in rows})
    several = len(files) > 1
    blocks: list[Block] = [
        Table(
            (*_columns(several), "tensor"),
            tuple((*_cells(tensor, files), tensor.name or "(unnamed)") for tensor in shown),
            title="worst first" if bad else "largest first",
            right_aligned=tuple(range(2, 7)),
        )
    ]
    if len(shown) < len(rows):
        hidden = len(rows) - len(shown)
        worse = sum(1 for tensor in bad if tensor not in shown)
        words = f", {worse:,} of them with NaN or Inf" if worse else ""
        blocks.append(Note(f"{counted(hidden, 'more tensor')}{words}: -v or --json shows them"))
    blocks.append(KeyValues(tuple(_totals(tensors)), title="in all"))
    return (*blocks, *numbers)


def _numbers(nan_numbers: Sequence[NanNumber]) -> tuple[Block, ...]:
    """Name what is no tensor apart: a NaN loss in a file does not spoil the weights in it."""
    if not nan_numbers:
        return ()
    names = list(dict.fromkeys(number.name or "(unnamed)" for number in nan_numbers))
    shown = names[:_NUMBERS_SHOWN]  # the JSON document has all
    least = "at least " if len(nan_numbers) >= MOST_NAN_NUMBERS else ""
    hidden = len(names) - len(shown)
    rest = f" and {least}{hidden:,} more" if hidden or least else ""
    said = f"NaN beside the tensors: {', '.join(name[:100] for name in shown)}{rest}"
    what = "plain numbers as a loss or a metric, which count neither above nor in the exit status"
    return (Note(f"{said} ({what})"),)


def _columns(several: bool) -> tuple[str, ...]:
    columns = ("dtype", "shape", "NaN", "Inf", "zeros", "least |x|", "largest |x|")
    return (*columns, "file") if several else columns


def _short_names(files: Iterable[str]) -> dict[str, str]:
    """Return the files without the folders that they share."""
    parts = {file: file.split("/") for file in files}
    levels = zip(*(folders[:-1] for folders in parts.values()), strict=False)
    shared = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, levels))
    return {file: "/".join(folders[shared:]) for file, folders in parts.items()}


def _cells(tensor: ScannedTensor, files: Mapping[str, str]) -> tuple[str, ...]:
    shape = "×".join(str(size) for size in tensor.shape) or "scalar"
    cells = (
        tensor.dtype,
        shape,
        _count(tensor.nan_count, tensor.numel),
        _count(tensor.inf_count, tensor.numel),
        _count(tensor.zero_count, tensor.numel),
        _number(tensor.abs_min_nonzero),
        _number(tensor.abs_max),
    )
    return (*cells, files[tensor.file]) if len(files) > 1 else cells


def _count(count: int, whole: int) -> str:
    if not count:
        return "–"
    return "all" if count == whole else f"{count:,}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4g}"


def _totals(tensors: Tensors) -> list[tuple[str, str]]:
    items = tensors.items
    kinds = Counter(tensor.dtype for tensor in items)
    values = sum(tensor.numel for tensor in items)
    nans, infs = sum(t.nan_count for t in items), sum(t.inf_count for t in items)
    return [
        ("tensors", f"{len(items):,} with {values:,} values"),
        ("types", ", ".join(f"{count:,} {name}" for name, count in kinds.most_common())),
        ("bad", f"{nans:,} NaN and {infs:,} Inf in {counted(len(tensors.bad), 'tensor')}"),
    ]
