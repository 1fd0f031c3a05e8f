"""``postmortem core CORE --slim OUT``: a small core that reads to the same stacks."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.partial import cannot_write, check_place, partial_file
from postmortem.readers.opening import Progress, open_core, terminations_unwind
from postmortem.readers.packing import pack, packing_of, require_encoder
from postmortem.readers.slim import STANDARD_INPUT, SlimOutcome, slim_file, slim_stream

_ROOM = 8 << 30
"""Bytes of heap that are kept of a stream, if half of the free space is not less."""


@dataclass(frozen=True, slots=True)
class SlimOptions:
    """What the user asked for."""

    executable: Path | None = None
    sysroot: str | None = None
    temp_dir: Path | None = None
    pid: int | None = None
    """The process that is being dumped, for a core from standard input."""

    @property
    def program(self) -> str | None:
        """The executable as text."""
        return None if self.executable is None else str(self.executable)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the slim core goes."""

    asked: Path
    final: Path
    packing: str | None


def write_slim(
    source: Path, out: Path, options: SlimOptions, progress: Progress | None = None
) -> SlimOutcome:
    """Write the slim core of the core at `source` to `out`, packed if its name says so.

    `out` is there whole or as it was before. Raises EvidenceError when the core cannot be read or
    the slim one not be written.
    """
    place = _place(out)
    if place.packing is not None:
        require_encoder(place.packing)
    if place.final.exists() and source.exists() and place.final.samefile(source):
        raise EvidenceError(str(out), "is the core itself", hint="name another file for --slim")
    with (
        terminations_unwind(),
        open_core(source, temp_dir=options.temp_dir, progress=progress) as opened,
        partial_file(place.final) as (stream, path),
    ):
        outcome = slim_file(
            str(opened.path), stream.fileno(), executable=options.program, sysroot=options.sysroot
        )
        done = _finished(path, place)
        problems = (*opened.problems, *outcome.problems)
    return replace(outcome, file_bytes=done.stat().st_size, problems=problems)


def write_slim_of_stream(descriptor: int, out: Path, options: SlimOptions) -> SlimOutcome:
    """Write the slim core of a core that comes through a pipe.

    Once something of the core has come, it is not lost: what cannot be made small is kept as it
    came, what cannot be packed is kept unpacked, and a problem says so.
    """
    place = _place(out)
    if options.temp_dir is not None and not options.temp_dir.is_dir():
        raise EvidenceError(str(options.temp_dir), "there is no such folder")
    beside = place.final if options.temp_dir is None else options.temp_dir / place.final.name
    with (
        terminations_unwind(),
        partial_file(beside, "spool") as (spool, spool_path),
        partial_file(place.final) as (stream, path),
    ):
        taken = slim_stream(
            descriptor,
            stream.fileno(),
            spool.fileno(),
            _room(beside.parent),
            pid=options.pid,
            executable=options.program,
            sysroot=options.sysroot,
        )
        outcome = taken.slim
        problems = list(taken.problems)
        if outcome is None:
            try:
                outcome = slim_file(
                    str(spool_path),
                    stream.fileno(),
                    executable=options.program,
                    sysroot=options.sysroot,
                )
            except Exception as error:
                path = spool_path
                outcome, problem = _kept_as_it_came(spool_path, error)
                problems.append(problem)
        try:
            done = _finished(path, place)
        except (OSError, EvidenceError) as error:
            if place.packing is None:
                raise
            done = place.final.with_suffix("")
            _move(path, done)
            problems.append(Problem(str(out), f"{error}; it is kept unpacked as {done.name}"))
    return replace(outcome, file_bytes=done.stat().st_size, problems=(*problems, *outcome.problems))


def _place(out: Path) -> _Place:
    return _Place(out, check_place(out), packing_of(out))


def _room(folder: Path) -> int:
    usage = shutil.disk_usage(folder)
    return min(_ROOM, usage.free // 2) if usage.total else _ROOM  # some mounts report 0


def _kept_as_it_came(spool: Path, error: Exception) -> tuple[SlimOutcome, Problem]:
    size = spool.stat().st_size
    if size == 0:
        raise error
    what = f"could not be made small ({error}); it is kept as far as it was taken in"
    outcome = SlimOutcome(size, size, lost_bytes=0, file_bytes=size, kept_bytes=size, threads=0)
    return outcome, Problem(STANDARD_INPUT, what)


def _finished(path: Path, place: _Place) -> Path:
    """Move the finished core to its place, packed if need be, and return where it is."""
    if place.packing is None:
        _move(path, place.final)
        return place.final
    with partial_file(place.final, "packed") as (packed, packed_path), path.open("rb") as plain:
        pack(plain, packed, place.packing)
        packed.flush()
        packed_path.replace(place.final)
    return place.final


def _move(path: Path, final: Path) -> None:
    try:
        if path.parent == final.parent or path.parent.stat().st_dev == final.parent.stat().st_dev:
            path.replace(final)
            return
        shutil.copyfile(path, final)  # --temp-dir is on another file system
        final.chmod(0o600)
    except OSError as error:
        raise cannot_write(final, error) from error
