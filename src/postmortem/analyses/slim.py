"""``postmortem core CORE --slim OUT``: a small core that reads to the same stacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from postmortem.analyses.whole_file import check_place, partial_file
from postmortem.errors import EvidenceError
from postmortem.readers.opening import open_core
from postmortem.readers.packing import pack, packing_of, require_encoder
from postmortem.readers.slim import SlimOutcome, slim_file

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SlimOptions:
    """What the user asked for."""

    executable: Path | None = None
    sysroot: str | None = None
    temp_dir: Path | None = None

    @property
    def program(self) -> str | None:
        """The executable as text."""
        return None if self.executable is None else str(self.executable)


def write_slim(
    source: Path, out: Path, options: SlimOptions, progress: Progress | None = None
) -> SlimOutcome:
    """Write the slim core of the core at `source` to `out`, packed if its name says so.

    `out` is there whole or as it was before. Raises EvidenceError when the core cannot be read or
    the slim one not be written.
    """
    final, packing = _place(out)
    _refuse_input(source, out, final)
    with open_core(source, temp_dir=options.temp_dir, progress=progress) as opened:
        with partial_file(final) as (stream, path):
            outcome = slim_file(
                str(opened.path),
                stream.fileno(),
                executable=options.program,
                sysroot=options.sysroot,
            )
            _finish(path, final, packing)
        problems = (*opened.problems, *outcome.problems)
    return replace(outcome, file_bytes=final.stat().st_size, problems=problems)


def _place(out: Path) -> tuple[Path, str | None]:
    final = check_place(out)
    packing = packing_of(out)
    if packing is not None:
        require_encoder(packing)
    return final, packing


def _refuse_input(source: Path, out: Path, final: Path) -> None:
    if final.exists() and source.exists() and final.samefile(source):
        raise EvidenceError(str(out), "is the core itself", hint="name another file for --slim")


def _finish(path: Path, final: Path, packing: str | None) -> None:
    """Move the finished core to its place, packed if need be."""
    if packing is None:
        path.replace(final)
        return
    with partial_file(final, "packed") as (packed, packed_path), path.open("rb") as plain:
        pack(plain, packed, packing)
        packed.flush()
        packed_path.replace(final)
