"""A core to a slim one, through the native writer: a few MB in which stacks read the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.readers.executable import resolve_executable
from postmortem.readers.formats import HEAD_BYTES, compression_of, require_core
from postmortem.records import of_row, record

if TYPE_CHECKING:
    from postmortem._native import RawSlimOutcome


STANDARD_INPUT = "standard input"


@record
class SlimOutcome:
    """What was read and what was written, in bytes."""

    source_bytes: int
    source_expected_bytes: int
    """More than `source_bytes`: the original is cut off."""
    lost_bytes: int
    """Memory that found no room while the original streamed by."""
    file_bytes: int
    kept_bytes: int
    threads: int
    problems: tuple[Problem, ...] = ()


def slim_file(
    path: str, fd: int, *, executable: str | None = None, sysroot: str | None = None
) -> SlimOutcome:
    """Write the slim core of the core at `path` into the empty file `fd`.

    Raises EvidenceError when it is not a core that can be read, and OSError when writing fails.
    """
    from postmortem import _native

    executable, problems = _resolved(executable)
    try:
        raw = _native.write_slim(path, fd, executable=executable, sysroot=sysroot)
    except EvidenceError as error:
        raise EvidenceError(path, error.what, offset=error.offset, hint=error.hint) from None
    return _outcome(raw, problems)


@record
class StreamOutcome:
    """What became of a core that came through a pipe."""

    slim: SlimOutcome | None
    """None: it lies in the spool file, from which the slim core is yet to be made."""
    problems: tuple[Problem, ...] = ()


def slim_stream(
    source: int,
    fd: int,
    spool: int,
    room: int,
    *,
    pid: int | None = None,
    executable: str | None = None,
    sysroot: str | None = None,
) -> StreamOutcome:
    """Take the core that comes through the pipe `source`; see `_native.slim_stream`.

    Raises EvidenceError when what comes is no core, and OSError when writing fails.
    """
    from postmortem import _native

    begin = _read_begin(source)
    packing = compression_of(begin)
    if packing is not None:
        what = f"is packed ({packing}): {STANDARD_INPUT} takes a plain core"
        raise EvidenceError(STANDARD_INPUT, what, hint="unpack it on the way: zstd -dc CORE | …")
    require_core(begin, STANDARD_INPUT)
    executable, problems = _resolved(executable)
    try:
        raw = _native.slim_stream(
            source, begin, fd, spool, room, pid=pid, executable=executable, sysroot=sysroot
        )
    except EvidenceError as error:
        raise EvidenceError(
            STANDARD_INPUT, error.what, offset=error.offset, hint=error.hint
        ) from None
    done = raw["outcome"]
    remarks = tuple(Problem(**row) for row in raw["problems"])
    return StreamOutcome(
        None if done is None else _outcome(done, ()), problems=(*problems, *remarks)
    )


def _read_begin(source: int) -> bytes:
    """Read enough of a pipe to tell what comes; less where it ends."""
    begin = b""
    while len(begin) < HEAD_BYTES:
        piece = os.read(source, HEAD_BYTES - len(begin))
        if not piece:
            break
        begin += piece
    return begin


def _resolved(executable: str | None) -> tuple[str | None, tuple[Problem, ...]]:
    if executable is None:
        return None, ()
    resolved = resolve_executable(executable)
    return resolved.path, resolved.problems


def _outcome(raw: RawSlimOutcome, problems: tuple[Problem, ...]) -> SlimOutcome:
    rows = tuple(Problem(**row) for row in raw["problems"])
    return of_row(SlimOutcome, raw, problems=problems + rows)
