"""Flight files as JSON: in ``kind logs`` beside the ranks, in ``kind flight`` with their frames."""

from __future__ import annotations

from collections.abc import Iterable

from postmortem.diagnose.numerics.first_bad import FirstBad
from postmortem.facts.frames import Cell, Flight, Frame


def flight_row(one: Flight, bad: FirstBad | None) -> dict[str, object]:
    """Return which process wrote a flight file, how it ended, and what went bad first."""
    return {
        "file": one.path,
        "rank": one.recorder.rank,
        "world_size": one.recorder.world_size,
        "host": one.recorder.host,
        "batch": one.recorder.batch,
        "ended": one.recorder.ended,
        "first_bad": None
        if bad is None
        else {
            "module": bad.module,
            "class_name": bad.class_name,
            "cell": bad.cell,
            "batch": bad.batch,
            "origin": bad.origin.value,
            "nan_count": bad.nan_count,
            "inf_count": bad.inf_count,
            "confidence": bad.confidence,
        },
    }


def frame_rows(frames: Iterable[Frame]) -> list[dict[str, object]]:
    """Return frames, the oldest first."""
    return [
        {
            "number": frame.number,
            "batch": frame.batch,
            "phase": frame.phase.name.lower(),
            "module": frame.module,
            "class_name": frame.class_name,
            "cells": [_cell(cell) for cell in frame.cells],
        }
        for frame in frames
    ]


def _cell(cell: Cell) -> dict[str, object]:
    numbers = cell.numbers
    row: dict[str, object] = {"kind": cell.kind.name.lower(), "name": cell.name, "note": cell.note}
    if numbers is None:
        return row
    return row | {
        "dtype": numbers.dtype,
        "numel": numbers.numel,
        "abs_min": numbers.abs_min,
        "abs_max": numbers.abs_max,
        "abs_min_nonzero": numbers.abs_min_nonzero,
        "abs_max_finite": numbers.abs_max_finite,
        "nan_count": numbers.nan_count,
        "inf_count": numbers.inf_count,
        "zero_count": numbers.zero_count,
        "subnormal_count": numbers.subnormal_count,
        "first_nonfinite": numbers.first_nonfinite,
        "masked": cell.masked,
    }
