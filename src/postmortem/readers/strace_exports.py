"""Files that every call of a log is written to: tables, folded stacks, a timeline for Perfetto."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from postmortem import _native, underway
from postmortem.partial import create_beside
from postmortem.records import record
from postmortem.text import counted

if TYPE_CHECKING:
    from postmortem._native import RawClosed

STANDARD_OUTPUT = "-"
SHORTEST_SECONDS = 0.001
"""A call this long is on a timeline; a shorter one only if it failed or never returned."""

QUIET = (
    "EAGAIN", "EWOULDBLOCK", "EINPROGRESS", "EINTR", "ENOTTY", "ECHILD", "ESRCH", "ENODATA",
    "ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", "ERESTART_RESTARTBLOCK",
)  # fmt: skip
"""Errors by which programs ask; they are no failures on a timeline. ENOENT is: it may be one."""


class Disguise(Protocol):
    """Masks what looks secret."""

    def text(self, text: str) -> str:
        """Return a path or call as it may be shown."""

    def words(self, argv: list[str]) -> list[str]:
        """Return a command line as it may be shown."""

    def name(self, argv: list[str]) -> str:
        """Return a short name of a command line."""

    def learn(self, argv: list[str]) -> None:
        """Take note of the secrets in a command line."""


@record
class Wish:
    """What is to be written where; a name may be ``-``."""

    calls: str | None = None
    folded: str | None = None
    trace: str | None = None
    all_calls: bool = False
    """On the timeline: each call, however short."""

    @property
    def names(self) -> tuple[str, ...]:
        """All files that are written."""
        return tuple(name for name in (self.calls, self.folded, self.trace) if name is not None)


@record
class Written:
    """One file that was written, or what must be said of it."""

    name: str
    what: str


class Target:
    """A file that is there whole or as it was before: a partial one beside it until `keep`.

    A pipe or device is written to at once. Raises OSError with the name when it cannot be made.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._partial: Path | None = None
        self._final: Path | None = None
        if name == STANDARD_OUTPUT:
            underway.consuming()
            underway.claim_output()
            self.descriptor = os.dup(1)
            return
        final = Path(os.path.realpath(name))  # a link stays a link
        try:
            if final.exists() and not stat.S_ISREG(final.stat().st_mode):
                self.descriptor = os.open(final, os.O_WRONLY)
                return
            self.descriptor, partial = create_beside(final)
        except OSError as error:
            raise OSError(error.errno, f"cannot be written: {error.strerror}", name) from error
        self._partial, self._final = partial, final

    def keep(self) -> None:
        """Give the file its name."""
        if self._partial is not None and self._final is not None and self._final.exists():
            os.fchmod(self.descriptor, stat.S_IMODE(self._final.stat().st_mode))
        self._close()
        if self._partial is not None and self._final is not None:
            self._partial.replace(self._final)
            self._partial = None

    def drop(self) -> None:
        """Leave what was there before."""
        self._close()
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)
            self._partial = None

    def _close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Exports:
    """The exports of one run of the command; a context that leaves no half files behind."""

    def __init__(self, wish: Wish, disguise: Disguise, *, masked: bool) -> None:
        self._disguise = disguise
        self._mask = disguise.text if masked else None
        self._targets: list[Target] = []
        self._scratch = ExitStack()
        self._finish: list[Callable[[], Written]] = []
        self.native: list[object] = []
        """What a reader is given."""
        self.written: tuple[Written, ...] = ()
        try:
            if wish.calls is not None:
                self._add_calls(wish.calls)
            if wish.folded is not None:
                self._add_folded(wish.folded)
            if wish.trace is not None:
                self._add_trace(wish.trace, all_calls=wish.all_calls)
        except BaseException:
            self._drop()
            raise

    def __enter__(self) -> Exports:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._drop()

    def finish(self) -> None:
        """Write what is left, and give all files their names."""
        self.written = tuple(finish() for finish in self._finish)
        for target in self._targets:
            try:
                target.keep()
            except OSError as error:
                raise _named(error, target.name) from error

    def _drop(self) -> None:
        self._scratch.close()
        for target in self._targets:
            target.drop()

    def _target(self, name: str) -> Target:
        target = Target(name)
        self._targets.append(target)
        return target

    def _add(self, native: object, finish: Callable[[RawClosed], Written], name: str) -> None:
        def close() -> Written:
            try:
                return finish(cast("RawClosed", _native.close_export(native)))
            except OSError as error:
                raise _named(error, name) from error

        self.native.append(native)
        self._finish.append(close)

    def _add_calls(self, name: str) -> None:
        target = self._target(name)
        ending = Path(name).suffix.lower()
        if ending == ".parquet":
            from postmortem.readers.strace_parquet import ParquetCalls

            table = ParquetCalls(target.descriptor)
            self._scratch.callback(table.drop)
            native = _native.export_batches(table.take, batch=1 << 16, mask=self._mask)

            def finish(closed: RawClosed) -> Written:
                table.close()
                return Written(name, counted(table.calls, "call"))

            self._add(native, finish, name)
            return
        native = _native.export_calls(
            target.descriptor,
            form="csv" if ending == ".csv" else "ndjson",
            mask=self._mask,
            texts=self._mask is None,
        )
        self._add(native, lambda closed: Written(name, counted(closed["calls"], "call")), name)

    def _add_folded(self, name: str) -> None:
        target = self._target(name)
        native = _native.export_folded(target.descriptor, mask=self._mask, name=self._disguise.name)

        def finish(closed: RawClosed) -> Written:
            weight = "microseconds" if closed["timed"] else "calls: the log has no durations (-T)"
            return Written(name, f"{closed['stacks']:,} stacks, weights are {weight}")

        self._add(native, finish, name)

    def _add_trace(self, name: str, *, all_calls: bool) -> None:
        import tempfile

        target = self._target(name)
        # What must stand first is known last: events go to a file of their own.
        folder = None if name == STANDARD_OUTPUT else Path(os.path.realpath(name)).parent
        try:
            events = self._scratch.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
        except OSError:  # a folder in which only this one file may be written
            events = self._scratch.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        native = _native.export_timeline(
            events.fileno(),
            mask=self._mask,
            name=self._disguise.name,
            words=self._disguise.words,
            all_calls=all_calls,
            shortest_ns=round(SHORTEST_SECONDS * 1e9),
            quiet=list(QUIET),
        )

        def finish(closed: RawClosed) -> Written:
            with open(target.descriptor, "wb", closefd=False) as out:
                out.write(closed["head"])
                _copy(cast(BinaryIO, events), out)
            return Written(name, _timeline_words(closed, all_calls=all_calls))

        self._add(native, finish, name)


def _copy(source: BinaryIO, to: BinaryIO) -> None:
    source.seek(0)
    while piece := source.read(1 << 20):
        to.write(piece)


def _timeline_words(closed: RawClosed, *, all_calls: bool) -> str:
    words = f"{closed['written']:,} of {closed['calls']:,} calls"
    if not all_calls:
        words += f" (those over {SHORTEST_SECONDS * 1000:g} ms, failed or never ended)"
    if closed["untimed"]:
        words += f"; {closed['untimed']:,} have no time stamp and are left out: record with -ttt -T"
    elif closed["without_duration"] > closed["calls"] // 2:
        words += "; most have no duration and are points: record with -T"
    clocks = closed["clocks"]
    if "epoch" in clocks and "day" in clocks:
        words += "; logs without dates are taken to begin with the first one: record with -ttt"
    elif clocks.count("day") > 1:
        words += "; the logs have no dates and are taken to be of one day: record with -ttt"
    return words


def _named(error: OSError, name: str) -> OSError:
    if isinstance(error, BrokenPipeError):
        return error
    shown = "standard output" if name == STANDARD_OUTPUT else name
    return OSError(error.errno, f"cannot be written: {error.strerror or error}", shown)


def same_file(wish: Wish, inputs: list[str]) -> str | None:
    """Return the file that would be written over a log that is read, if there is one."""
    for name in wish.names:
        for source in inputs:
            try:
                if name != STANDARD_OUTPUT and Path(name).samefile(source):
                    return name
            except OSError:
                continue
    return None


def parquet_is_there() -> bool:
    """Return whether pyarrow and NumPy can be imported."""
    from importlib.util import find_spec

    return find_spec("pyarrow") is not None and find_spec("numpy") is not None
