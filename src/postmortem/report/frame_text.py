"""The frames as text, in the layout that users of transformers' debug_utils know.

Columns ``abs min  abs max  metadata``; a line with module and class, then one for each tensor.
"""

import math
from collections.abc import Iterable

from postmortem.facts.frames import Cell, Frame, Phase

PREFIX = " " * 17
HEADER = f"{'abs min':8} {'abs max':8} metadata"
_PHASES = {Phase.BACKWARD: " (backward)", Phase.OPTIMIZER: " (optimizer)", Phase.BATCH: " (batch)"}


def row(cell: Cell) -> str:
    """Return one line: the extremes of |x|, NaN in both where there is a NaN, and the name."""
    numbers = cell.numbers
    if numbers is None:
        return f"{cell.remark:>17} {cell.name}"
    if not numbers.numel:
        return f"{'empty':>17} {cell.name}"
    least, largest = numbers.abs_min, numbers.abs_max
    if numbers.nan_count:  # as min() and max() of PyTorch have it
        least = largest = math.nan
    beside = f" ({cell.remark})" if cell.note else ""
    return f"{least:8.2e} {largest:8.2e} {cell.name}{beside}"


def batch_opening(batch: int) -> str:
    """Return the lines that stand before the first frame of a batch."""
    return f"\n\n{PREFIX} *** Starting batch number={batch} ***\n{HEADER}"


def frame_text(frame: Frame) -> str:
    """Return the lines of a frame."""
    lines = [batch_opening(frame.batch)] if frame.opens_batch else []
    lines.append(f"{PREFIX} {frame.module} {frame.class_name}{_PHASES.get(frame.phase, '')}")
    lines += map(row, frame.cells)
    return "\n".join(lines)


def dump(frames: Iterable[Frame], batch: int) -> str:
    """Return the report of the last frames of a batch in which NaN or Inf were seen."""
    texts = [frame_text(frame) for frame in frames]
    return "\n".join(
        [
            f"\nDetected inf/nan during batch_number={batch}",
            f"Last {len(texts)} forward frames:",
            HEADER,
            *texts,
        ]
    )
