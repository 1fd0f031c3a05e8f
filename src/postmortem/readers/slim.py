"""A core to a slim one, through the native writer: a few MB that readers of stacks see no less in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.readers.executable import resolve_executable
from postmortem.records import record

if TYPE_CHECKING:
    from postmortem._native import RawSlimOutcome


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


def _resolved(executable: str | None) -> tuple[str | None, tuple[Problem, ...]]:
    if executable is None:
        return None, ()
    resolved = resolve_executable(executable)
    return resolved.path, resolved.problems


def _outcome(raw: RawSlimOutcome, problems: tuple[Problem, ...]) -> SlimOutcome:
    rows = tuple(Problem(row["where"], row["what"], row["remedy"]) for row in raw["problems"])
    return SlimOutcome(
        source_bytes=raw["source_bytes"],
        source_expected_bytes=raw["source_expected_bytes"],
        lost_bytes=raw["lost_bytes"],
        file_bytes=raw["file_bytes"],
        kept_bytes=raw["kept_bytes"],
        threads=raw["threads"],
        problems=problems + rows,
    )
