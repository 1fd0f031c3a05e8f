"""``postmortem diff A B``: the first module at which two trainings part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from postmortem.diagnose.numerics.parting import Difference, Parting, part
from postmortem.errors import EvidenceError
from postmortem.facts.frames import Frame
from postmortem.facts.source import Problem, Source
from postmortem.present.headline.diff import headline, module
from postmortem.report.blocks import Table
from postmortem.report.card import Highlights
from postmortem.report.contract import fill
from postmortem.report.contract.diff import Diff
from postmortem.report.model import Outcome, Report

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
    return _report(found, sources, (*left[2], *right[2]))


def _read(path: Path) -> tuple[list[Frame], bool, tuple[Problem, ...]]:
    """Return the frames of a file, whether they are exact, and what could not be read."""
    from postmortem.readers.flight import is_flight, read_flight
    from postmortem.readers.trace_text import read_trace

    with path.open("rb") as stream:
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


def _report(found: Parting, inputs: tuple[Source, ...], problems: tuple[Problem, ...]) -> Report:
    first = found.first
    rows = tuple(_row(one) for one in found.worst)
    parts = [Table(("module", "tensor", "differs", "relative"), rows, title="what differs most")]
    for name, alone in (("A", found.only_a), ("B", found.only_b)):
        if alone:
            parts.append(Table((f"only in {name}",), tuple((one,) for one in alone)))
    return Report(
        kind="diff",
        inputs=inputs,
        verdict=headline(found),
        failed=first is not None,
        diagnoses=(),
        blocks=tuple(one for one in parts if one.rows),
        body=fill(Diff, found),
        problems=problems,
        footer=f"{found.compared} calls compared, tolerance {found.tolerance:g}",
        settled=None if first is not None else Outcome.HEALTHY,
        highlights=_highlights(found),
    )


def _row(one: Difference) -> tuple[str, ...]:
    where = f"{one.name}, batch {one.batch}, {one.phase}"
    return (module(one), where, one.what, f"{one.relative:.2g}")


def _highlights(found: Parting) -> Highlights:
    first, rows = found.first, []
    steps: tuple[str, ...] = ()
    if first is not None:
        rows.append((f"batch {first.batch}", f"{first.phase}: {_cause(first, found.beside)}"))
        rows += [(one.name, one.what) for one in found.beside[:3]]
        steps = (_step(first),)
    if found.unequal is not None and found.unequal != first:
        one = found.unequal
        rows.append(("first of all", f"{module(one)}: {one.name}, {one.what}"))
    for name, alone in (("only in A", found.only_a), ("only in B", found.only_b)):
        if alone:
            rows.append((name, ", ".join(alone[:6])))
    return Highlights(rows=tuple(rows), steps=steps)


def _cause(first: Difference, beside: tuple[Difference, ...]) -> str:
    """Return what can be said of a call by which of its tensors differ."""
    kinds = {first.kind, *(one.kind for one in beside)}
    if "weight" in kinds:
        return "its weights differ already"
    if "input" in kinds:
        return "what came in differs already, and nothing before it in these files does"
    if first.kind == "output":
        return "from inputs and weights with the same extremes it makes another output"
    return f"its {first.kind} differs first"


def _step(first: Difference) -> str:
    if first.kind == "weight":
        return "compare the checkpoints and seeds that both began with"
    if first.kind == "input" and first.phase == "forward":
        return "compare the data and its order, and what runs outside of modules"
    return f"run {module(first)} alone on the same input in both: kernel, dtype, dropout, library"
