"""Checkpoints to facts: every tensor read once, where it lies in the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.facts.tensors import NanNumber, Part, ScannedTensor, TensorPlace, Tensors
from postmortem.readers.checkpoint import indexes
from postmortem.readers.checkpoint.files import Places, find_files, read_places
from postmortem.readers.checkpoint.joining import joined
from postmortem.records import record

if TYPE_CHECKING:
    from postmortem._scan import ScanResult

Progress = Callable[[str, int, int], None]
"""Called with the file, the bytes of all files that are done, and those of all files."""
OUTSIDE = "does not lie in the file"
"""Of a tensor whose place was wrong: what reads places lets none such through."""


@record
class CheckpointFacts:
    """What the files of a checkpoint hold."""

    sources: tuple[Source, ...]
    tensors: Tensors
    problems: tuple[Problem, ...] = ()
    damaged: bool = False
    """Whether a file is cut, lies about itself, or could not be read."""
    unread: int = 0
    """Files that are not there, or may not be read, where that is all that is wrong."""
    nan_numbers: tuple[NanNumber, ...] = ()
    """Of each file the first `MOST_NAN_NUMBERS`."""


def scan_checkpoint(names: Iterable[str], progress: Progress | None = None) -> CheckpointFacts:
    """Scan all tensors; raises EvidenceError if no file of them can be read."""
    files, found = find_files(names)
    readable: list[Places] = []
    errors: list[EvidenceError] = []
    for path in files:
        try:
            readable.append(read_places(path))
        except EvidenceError as error:
            errors.append(error)
    if not readable:
        raise errors[0]
    # Of a file with problems it is not known what is in it beside the tensors that were found.
    held = {
        Path(places.path): frozenset(place.name for place in places.tensors)
        for places in readable
        if not places.problems
    }
    found += indexes.missing_tensors(held)
    run = _Run(sum(places.size_bytes for places in readable), progress)
    for places in readable:
        run.scan(places)
    said = dict.fromkeys((*found, *(Problem(e.where, e.what, e.hint) for e in errors)))
    problems = tuple(dict.fromkeys((*said, *run.problems)))
    sources = tuple(Source(places.path, places.size_bytes) for places in readable)
    damaged = bool(said) or run.damaged
    lost = sum(not os.access(path, os.R_OK) for path in files)
    unread = lost if lost == len(errors) and not (found or run.damaged) else 0
    nans = tuple(NanNumber(name, of.path) for of in readable for name in of.nan_numbers)
    tensors = Tensors(tuple(joined(run.items)))
    return CheckpointFacts(sources, tensors, problems, damaged, unread, nans)


class _Run:
    """The scan of one file after the other."""

    def __init__(self, whole: int, progress: Progress | None) -> None:
        self.items: list[tuple[ScannedTensor, Part | None]] = []
        self.problems: list[Problem] = []
        self.damaged = False
        self._whole = whole
        self._before = 0
        self._progress = progress
        self._path = ""

    def scan(self, places: Places) -> None:
        """Scan the tensors of a file."""
        self._path = places.path
        self.problems += places.problems
        self.damaged |= places.damaged
        self._done(0)
        self._in_place([t for t in places.tensors if t.packed is None and t.held is None])
        for place in places.tensors:
            if place.packed is not None:
                self._packed(place)
            elif place.held is not None:
                found = self._piece(place, bytearray(place.held), place.shape, place.strides)
                self.items.append((found, place.part))
        self._before += places.size_bytes

    def _done(self, of_this: int) -> None:
        if self._progress is not None:
            self._progress(self._path, self._before + of_this, self._whole)

    def _in_place(self, places: list[TensorPlace]) -> None:
        from postmortem import _scan

        path = self._path
        rows = [(t.offset, t.dtype, t.shape, t.strides) for t in places]
        try:
            results, lost = _scan.scan_file(path, rows, progress=self._done)
        except ValueError as error:
            self.problems.append(Problem(path, f"cannot be mapped: {error}"))
            return
        if lost:
            what = f"{lost} pages of it could not be read and count as zeros (cut meanwhile, or a "
            self.problems.append(Problem(path, f"{what}disk error)", "scan it again; see dmesg"))
        for place, result in zip(places, results, strict=True):
            if result is None:
                self.problems.append(Problem(f"{path}: {place.name}", OUTSIDE))
            else:
                self.items.append((_fact(path, place, result), place.part))

    def _packed(self, place: TensorPlace) -> None:
        from postmortem.readers.checkpoint.unpacking import scan_packed

        try:
            found = scan_packed(self._path, place, self._piece, lambda: self._done(0))
        except EvidenceError as error:
            self.damaged = True
            self.problems.append(Problem(error.where, error.what, error.hint))
            return
        self.items.append((found, place.part))

    def _piece(
        self,
        place: TensorPlace,
        piece: bytearray,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
    ) -> ScannedTensor:
        from ctypes import addressof, c_char

        from postmortem import _scan

        memory = (c_char * max(len(piece), 1)).from_buffer(piece or bytearray(1))
        result = _scan.scan_memory(
            addressof(memory), dtype=place.dtype, shape=shape, strides=strides
        )
        return _fact(self._path, place, result)


_FOUND = ScannedTensor.__match_args__[4:]
"""What a scan itself says."""


def _fact(path: str, place: TensorPlace, result: ScanResult) -> ScannedTensor:
    found = {name: getattr(result, name) for name in _FOUND}
    return ScannedTensor(place.name, path, place.dtype, place.shape, **found)
