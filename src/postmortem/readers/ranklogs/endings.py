"""What a process says when it ends without Python: C++, the C library, faulthandler, Open MPI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from postmortem.facts.rank_logs import LogFailure, LogFrame, Said
from postmortem.patterns import Pattern

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
_DUMPED = Pattern(r"^\[?\S*:?\d*\]? ?\*\*\* (?P<what>Aborted|SIG\w+|Segmentation fault)[ (].*$")
_FRAME = Pattern(r'^ +File "(?P<file>[^"]*)", line (?P<line>\d{1,9}) in (?P<function>.+)$')
_WATCHDOG = Pattern(
    r"(?P<what>Watchdog caught collective operation timeout: .*|NCCL watchdog thread terminated"
    r" with exception: .*|[Hh]eartbeat monitor timed out.*)$"
)
_RANK = Pattern(r"\b[Rr]ank (?P<rank>\d+)\]")
_MOST_FRAMES = 200


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
            if watchdog:
                said, kind = Said("watchdog", watchdog["what"]), "watchdog"
            found = (
                None if watchdog else _LIBC.match(text) or _ASSERT.match(text) or _MPI.match(text)
            )
            if found:
                said = Said("abort", found["what"])
        if said is None:
            continue
        yield LogFailure(
            kind=kind,
            said=said,
            writer=writer,
            file=path,
            line=number,
            frames=frames,
            text="\n".join(row[2] for row in rows[i : last + 1]),
            begin_line=number,
            lines_after=lines - rows[-1][1],
        )


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
    """Return the rank that PyTorch's watchdog says that it is: ``[PG ID 0 … Rank 3]``."""
    found = _RANK.search(failure.text) if failure.kind in ("terminate", "watchdog") else None
    return int(found["rank"][:9]) if found else None
