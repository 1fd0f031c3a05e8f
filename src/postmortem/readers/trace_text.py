"""The frames of a trace: what the monitor, or transformers' debug_utils, has printed.

The text has extremes with three digits, and neither types nor counts.
"""

import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from postmortem.facts.frames import Cell, CellKind, Frame, Phase, Reading
from postmortem.readers.regular import open_regular

_BATCH = re.compile(r"\*\*\* Starting batch number=(\d{1,12}) \*\*\*")
_DETECTED = re.compile(r"Detected inf/nan during batch_number=(\d{1,12})")
_ROW = re.compile(r"^ {0,5}([\d.]+e[+-]\d\d|nan|inf) +([\d.]+e[+-]\d\d|nan|inf) (\S+)")
_NONE = re.compile(r"^ {0,16}(?:None|not a tensor|empty) \S")
_FRAME = re.compile(r"^ {17,18}(\S*) (\w+)(?: \((backward|optimizer|batch)\))?$")
_PHASES = {"backward": Phase.BACKWARD, "optimizer": Phase.OPTIMIZER, "batch": Phase.BATCH}
_KINDS = {"input": CellKind.INPUT, "output": CellKind.OUTPUT, "weight": CellKind.WEIGHT}
_MOST_BYTES = 256 << 20
_MOST_LINE = 4096


def read_trace(path: Path) -> list[Frame]:
    """Return the frames in their order; none where the text has no trace. Raises OSError."""
    with open_regular(path) as stream:
        return list(_frames(_lines(stream)))


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines, each cut where it is too long."""
    left, begins = _MOST_BYTES, True
    while left > 0 and (piece := stream.readline(_MOST_LINE)):
        left -= len(piece)
        if begins:
            yield from piece.decode("utf-8", "replace").splitlines()
        begins = piece.endswith(b"\n")


def _frames(lines: Iterable[str]) -> Iterator[Frame]:
    batch, number = 0, 0
    frame: Frame | None = None
    for line in lines:
        if found := _BATCH.search(line) or _DETECTED.search(line):
            batch = int(found[1])
        elif frame is not None and (row := _ROW.match(line)):
            frame.cells.append(_cell(row, frame.phase))
        elif named := _FRAME.match(line):
            if frame is not None:
                yield frame
            number += 1
            phase = _PHASES.get(named[3] or "", Phase.FORWARD)
            frame = Frame(number, batch, named[1], named[2], [], phase)
        elif frame is not None and not _NONE.match(line) and line.strip():
            yield frame  # other output of the program
            frame = None
    if frame is not None:
        yield frame


def _cell(row: re.Match[str], phase: Phase) -> Cell:
    least, largest = float(row[1]), float(row[2])
    kind = _KINDS.get(re.split(r"[\[ ]", row[3])[0], CellKind.WEIGHT)
    if phase is Phase.BACKWARD:
        kind = CellKind.GRADIENT
    reading = Reading(
        dtype="",
        numel=0,
        nan_count=int(math.isnan(largest)),
        inf_count=int(math.isinf(largest)),
        zero_count=0,
        subnormal_count=0,
        first_nonfinite=None,
        abs_min=least,
        abs_max=largest,
        abs_min_nonzero=math.nan,
        abs_max_finite=largest if math.isfinite(largest) else math.nan,
    )
    return Cell(kind, row[3], reading)
