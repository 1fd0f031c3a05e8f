"""``postmortem diff A B``: the first module at which two trainings part."""

from collections.abc import Sequence
from pathlib import Path

from postmortem.diagnose.numerics.parting import part
from postmortem.errors import EvidenceError
from postmortem.facts.frames import Frame
from postmortem.facts.source import Problem, Source
from postmortem.present.diff.report import diff_report
from postmortem.readers.regular import open_regular
from postmortem.report.model import Report

_OF_TEXT = 0.01
"""A trace is printed with three digits."""


def analyse(a: str, b: str, *, tolerance: float, batches: tuple[int, int] | None = None) -> Report:
    """Return the report on two files; raises EvidenceError where nothing can be compared."""
    left, right = _read(Path(a)), _read(Path(b))
    coarse = not (left[1] and right[1])
    found = part(left[0], right[0], tolerance=max(tolerance, _OF_TEXT * coarse), batches=batches)
    if not found.compared:
        what = f"has {_batches(left[0])}, {b} has {_batches(right[0])}: no call is in both"
        raise EvidenceError(a, what, hint="--batches N:M compares batch N of A with batch M of B")
    sources = tuple(Source(path, Path(path).stat().st_size) for path in (a, b))
    return diff_report(found, sources, (*left[2], *right[2]))


def _read(path: Path) -> tuple[list[Frame], bool, tuple[Problem, ...]]:
    """Return the frames of a file, whether they are exact, and what could not be read."""
    from postmortem.readers.flight import is_flight, read_flight
    from postmortem.readers.trace_text import read_trace

    with open_regular(path) as stream:
        head = stream.read(4096)
    if is_flight(head):
        flight, problems = read_flight(path)
        return list(flight.frames), True, problems
    frames = read_trace(path)
    if not frames:
        raise EvidenceError(str(path), "is neither a flight file nor has it a trace of the monitor")
    return frames, False, ()


def _batches(frames: Sequence[Frame]) -> str:
    numbers = sorted({frame.batch for frame in frames})
    return f"batches {numbers[0]} to {numbers[-1]}" if numbers else "no frames"
