"""What a process says when it ends without Python: C++, the C library, faulthandler, Open MPI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from postmortem.facts.rank_logs import LogFailure, LogFrame, NativeFrame, Said
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.mpi_errors import WORDS, mpi_error, rank_of_mpi_error
from postmortem.readers.ranklogs.native_stacks import (
    frames_behind,
    gfortran_frames,
    native_frame,
    rust_frames,
)
from postmortem.records import replace

if TYPE_CHECKING:
    from postmortem._native import RawRegion

_FATAL = Pattern(r"Fatal Python error: (?P<what>.*)$")
_THROWN = Pattern(r"terminate called after throwing an instance of '(?P<type>[^']+)'")
_WHAT = Pattern(r"^\s+what\(\):\s+(?P<what>.*)$")
_MPI = Pattern(r"^(?:\[[^\]]*\] )?Signal: (?P<what>.+ \(\d+\))")
_LIBC = Pattern(
    r"^(?:\*\*\* )?(?P<what>double free or corruption.*|free\(\): .*|malloc\(\): .*|realloc\(\): .*"
    r"|malloc_consolidate\(\): .*|corrupted size.*|corrupted double.*|munmap_chunk\(\): .*"
    r"|stack smashing detected.*|buffer overflow detected.*)$"
)
_ASSERT = Pattern(r"^(?P<what>\S+: .*Assertion `.*' failed\.?.*)$")
# glog and absl; "*** Process received signal ***" of Open MPI is followed by its "Signal: …"
_DUMPED = Pattern(r"^\*\*\* (?P<what>Aborted at|SIG[A-Z]+)\b(?P<rest>.*)$")
_CHECK = Pattern(r"^(?:F\d{4} \S+ +\d+ \S+\] )?(?P<what>Check fail(?:ed|ure)\S*:? .*)$")
# libgfortran/runtime/compile_options.c; Intel's libifcore
_FORTRAN = Pattern(
    r"^Program received signal (?P<signal>SIG[A-Z]+: .*)$"
    r"|^(?P<library>forrtl): (?P<severe>severe \(\d+\): .*)$"
)
_SANITIZER = Pattern(r"^==\d+==ERROR: (?P<name>[A-Z]\w+Sanitizer): (?P<what>.*)$")
_UBSAN = Pattern(r"^\S+?:\d+:\d+: runtime error: (?P<what>.*)$")
_PANIC = Pattern(
    r"^thread '(?P<thread>[^']*)'(?: \(\d+\))? panicked at (?:'(?P<old>.*)', )?"
    r"(?P<place>[^\s']+:\d+:\d+):?$"
)
_C_STACK = "Current thread's C stack trace"
_FRAME = Pattern(r'^ +File "(?P<file>[^"]*)", line (?P<line>\d{1,9}) in (?P<function>.+)$')
_WATCHDOG = Pattern(
    r"(?P<what>Watchdog caught collective operation timeout: .*|(?:NCCL|Process group) watchdog "
    r"thread terminated with exception: .*|[Hh]eartbeat monitor timed out.*"
    r"|ProcessGroupNCCL's watchdog got stuck for .*)$"
)
# ROCm's runtime, rocr (core/runtime/runtime.cpp, VMFaultHandler), which then calls abort()
_ROCM = Pattern(r"^(?P<what>Memory access fault by GPU node-\d+ .*)$")
# xla/pjrt/distributed/client.h, xla/tsl/distributed_runtime: LOG(QFATAL), then abort()
_JAX = Pattern(
    r"(?P<what>Terminating process because the (?:JAX distributed service|coordinator) .*)$"
)
_RANK = Pattern(r"\b[Rr]ank (?P<rank>\d+)\]")
_MOST_FRAMES = 200
_BEFORE = 3
_MOST_BETWEEN = 1000
"""Lines between why a process aborts and faulthandler's word on it: stacks of other ranks."""


def endings(region: RawRegion, writer: int, path: str, lines: int) -> Iterator[LogFailure]:
    """Yield the ends that the lines of a region tell of."""
    rows = region[3]
    for i, (number, _, text) in enumerate(rows):
        fatal = _FATAL.search(text) if "Fatal Python error" in text else None
        said: Said | None = None
        kind = "fatal"
        frames: tuple[LogFrame, ...] = ()
        last = i
        if fatal:
            said = Said("Fatal Python error", fatal["what"])
            frames, last = _stack(rows, i)
        elif text.startswith("terminate called"):
            said, last = _terminate(rows, i)
            kind = "terminate"
        else:
            watchdog = _WATCHDOG.search(text) if "atchdog" in text or "eartbeat" in text else None
            if "Terminating process because" in text:
                watchdog = _JAX.search(text)
            if watchdog:
                said, kind = Said("watchdog", watchdog["what"]), "watchdog"
            other = None if watchdog else _native_end(rows, i)
            if other is not None:
                said, kind, last = other
            found = (
                None
                if watchdog or other
                else _LIBC.match(text) or _ASSERT.match(text) or _MPI.match(text)
            )
            rocm = _ROCM.match(text) if text.startswith("Memory access fault") else None
            if found:
                said = Said("abort", found["what"])
            elif rocm:
                said = Said("ROCm", rocm["what"].rstrip("."))
        if said is None:
            continue
        native, last = _native(rows, i, last)
        yield LogFailure(
            kind=kind,
            said=said,
            writer=writer,
            file=path,
            line=number,
            frames=frames,
            native=native,
            text="\n".join(row[2] for row in rows[i : last + 1]),
            before=_last(region[4]) if i == 0 else (),
            begin_line=number,
            lines_after=lines - rows[-1][1],
        )


def _last(before: list[str]) -> tuple[str, ...]:
    """Return the last lines before a region; what the reader held twice comes twice."""
    return tuple(reversed(list(dict.fromkeys(reversed(before)))[:_BEFORE]))


def without_echoes(failures: Iterable[LogFailure]) -> Iterator[LogFailure]:
    """Yield the failures without faulthandler's word on an abort() that was told of before.

    The stack that it shows belongs to what said why: C++'s terminate, a watchdog, the C library.
    """
    last: LogFailure | None = None
    for failure in failures:
        echo = failure.said.exception == "Fatal Python error" and failure.said.message == "Aborted"
        if echo and last is not None and failure.line - last.line <= _MOST_BETWEEN:
            if not last.frames:
                last = replace(last, frames=failure.frames, text=f"{last.text}\n{failure.text}")
            continue
        if last is not None:
            yield last
        last = failure
    if last is not None:
        yield last


def _native_end(rows: list[tuple[int, int, str]], at: int) -> tuple[Said, str, int] | None:
    """Return what a library other than Python says of an end, its kind, and its last line."""
    text = rows[at][2]
    sanitizer = _SANITIZER.match(text)
    if sanitizer:
        return Said(sanitizer["name"], sanitizer["what"]), "fatal", at
    undefined = _UBSAN.match(text)
    if undefined:  # the program goes on
        return Said("UndefinedBehaviorSanitizer", undefined["what"]), "ignored", at
    panic = _PANIC.match(text)
    if panic:
        below = rows[at + 1][2] if at + 1 < len(rows) and panic["old"] is None else ""
        message = panic["old"] if panic["old"] is not None else below
        return Said("panic", f"{message} ({panic['place']})"), "fatal", at + bool(below)
    mpi = mpi_error(rows, at) if any(word in text for word in WORDS) else None
    if mpi is not None:
        return mpi[0], "fatal", mpi[1]
    fortran = _FORTRAN.match(text)
    if fortran:
        name = fortran["library"] or "libgfortran"
        return Said(name, fortran["severe"] or fortran["signal"]), "fatal", at
    check = _CHECK.match(text)
    if check:
        return Said("Check failed", check["what"].partition(": ")[2]), "fatal", at
    dumped = _DUMPED.match(text)
    if dumped and not _told_before(rows, at):
        there = next((i for i in (at, at + 2) if _signal_at(rows, i)), at)
        named = _DUMPED.match(rows[there][2]) or dumped
        word = named["what"].removesuffix(" at")
        return Said(word, named["rest"].strip(" *;")[:200]), "fatal", there
    return None


def _signal_at(rows: list[tuple[int, int, str]], at: int) -> bool:
    return at < len(rows) and rows[at][2].startswith("*** SIG")


def _told_before(rows: list[tuple[int, int, str]], at: int) -> bool:
    """Whether glog's "*** Aborted at" two lines above told of this already, or a failed check."""
    above = [row[2] for row in rows[max(0, at - 40) : at]]
    return any(_CHECK.match(text) or text.startswith("*** Aborted at") for text in above)


def _native(
    rows: list[tuple[int, int, str]], at: int, last: int
) -> tuple[tuple[NativeFrame, ...], int]:
    """Return the native frames behind an end, and the last of its lines."""
    if rows[at][2].startswith("thread '"):
        head = next((i for i in range(at, min(at + 4, len(rows))) if _RUST_HEAD in rows[i][2]), -1)
        return ((), last) if head < 0 else (rust_frames([row[2] for row in rows[head + 1 :]]), last)
    if rows[at][2].startswith("Program received signal "):
        below, rows_of_it = gfortran_frames([row[2] for row in rows[at + 1 :]])
        return below, at + rows_of_it
    begin, end = frames_behind(rows, last + 1)
    c_stack = next((i for i in range(at, len(rows)) if rows[i][2].startswith(_C_STACK)), -1)
    if c_stack >= 0:
        begin, end = frames_behind(rows, c_stack + 1, 1)
    frames = tuple(frame for row in rows[begin:end] if (frame := native_frame(row[2])) is not None)
    return frames, max(last, end - 1) if frames else last


_RUST_HEAD = "stack backtrace:"


def _terminate(rows: list[tuple[int, int, str]], at: int) -> tuple[Said, int]:
    thrown = _THROWN.search(rows[at][2])
    if not thrown:
        return Said("std::terminate", rows[at][2].removeprefix("terminate called").strip()), at
    what = _WHAT.match(rows[at + 1][2]) if at + 1 < len(rows) else None
    return Said(thrown["type"], what["what"] if what else ""), at + 1 if what else at


def _stack(rows: list[tuple[int, int, str]], at: int) -> tuple[tuple[LogFrame, ...], int]:
    """Return the frames of faulthandler's current thread, the outermost first."""
    frames: list[LogFrame] = []
    current = False
    last = at
    for i in range(at + 1, len(rows)):
        text = rows[i][2]
        if text.startswith("Current thread"):
            current, last = True, i
        elif text.startswith("Thread 0x"):
            if current:
                break
        elif current:
            frame = _FRAME.match(text)
            if not frame or len(frames) >= _MOST_FRAMES:
                break
            frames.append(LogFrame(frame["file"], int(frame["line"]), frame["function"]))
            last = i
    return tuple(reversed(frames)), last


def rank_named(failure: LogFailure) -> int | None:
    """Return the rank that PyTorch's watchdog, or MPI, says that it is: ``[PG ID 0 … Rank 3]``."""
    if failure.said.exception.startswith("MPI"):
        return rank_of_mpi_error(failure.text)
    found = _RANK.search(failure.text) if failure.kind in ("terminate", "watchdog") else None
    return int(found["rank"][:9]) if found else None
