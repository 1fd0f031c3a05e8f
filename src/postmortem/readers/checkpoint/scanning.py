"""Checkpoints to facts: every tensor read once, where it lies in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.facts.tensors import ScannedTensor, TensorPlace, Tensors
from postmortem.readers.checkpoint.files import Places, find_files, read_places
from postmortem.records import record

if TYPE_CHECKING:
    from postmortem._scan import ScanResult

Progress = Callable[[str, int, int], None]
"""Called with the file, the bytes of all files that are done, and those of all files."""


@record
class CheckpointFacts:
    """What the files of a checkpoint hold."""

    sources: tuple[Source, ...]
    tensors: Tensors
    problems: tuple[Problem, ...] = ()
    damaged: bool = False
    """Whether a file is cut, lies about itself, or could not be read."""


def scan_checkpoint(names: Iterable[str], progress: Progress | None = None) -> CheckpointFacts:
    """Scan all tensors; raises EvidenceError if no file of them can be read."""
    files, found = find_files(names)
    problems = list(found)
    readable: list[Places] = []
    errors: list[EvidenceError] = []
    for path in files:
        try:
            readable.append(read_places(path))
        except EvidenceError as error:
            errors.append(error)
    if not readable:
        raise errors[0]
    problems += [Problem(error.where, error.what, error.hint) for error in errors]
    whole = sum(places.size_bytes for places in readable)
    before = 0
    items: list[ScannedTensor] = []
    for places in readable:
        problems += places.problems
        items += _scan(places, problems, before, whole, progress)
        before += places.size_bytes
    sources = tuple(Source(places.path, places.size_bytes) for places in readable)
    damaged = bool(errors or found) or any(places.damaged for places in readable)
    return CheckpointFacts(sources, Tensors(tuple(items)), tuple(problems), damaged)


def _scan(
    places: Places, problems: list[Problem], before: int, whole: int, progress: Progress | None
) -> list[ScannedTensor]:
    from postmortem import _scan

    def done(of_this: int) -> None:
        if progress is not None:
            progress(places.path, before + of_this, whole)

    done(0)
    rows = [(t.offset, t.dtype, t.shape, t.strides) for t in places.tensors]
    try:
        results, lost = _scan.scan_file(places.path, rows, progress=done)
    except ValueError as error:
        problems.append(Problem(places.path, f"cannot be mapped: {error}"))
        return []
    if lost:
        what = f"{lost} pages of it could not be read and count as zeros (cut meanwhile, or a disk"
        problems.append(Problem(places.path, f"{what} error)", "scan it again; see dmesg"))
    items = []
    for place, result in zip(places.tensors, results, strict=True):
        if result is None:
            problems.append(Problem(f"{places.path}: {place.name}", "does not lie in the file"))
        else:
            items.append(_fact(places.path, place, result))
    return items


def _fact(path: str, place: TensorPlace, result: ScanResult) -> ScannedTensor:
    return ScannedTensor(
        name=place.name,
        file=path,
        dtype=place.dtype,
        shape=place.shape,
        numel=result.numel,
        abs_min=result.abs_min,
        abs_max=result.abs_max,
        abs_min_nonzero=result.abs_min_nonzero,
        abs_max_finite=result.abs_max_finite,
        nan_count=result.nan_count,
        inf_count=result.inf_count,
        zero_count=result.zero_count,
        subnormal_count=result.subnormal_count,
        first_nonfinite=result.first_nonfinite,
    )
