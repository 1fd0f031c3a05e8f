"""What gdb said about stacks, as facts."""

from collections.abc import Mapping
from typing import Any

from postmortem.facts.source import Problem
from postmortem.facts.threads import Frame, Trust
from postmortem.readers.json_values import words
from postmortem.records import record


@record
class SourceLine:
    """One function at an address; an address inside inlined calls has several, innermost first."""

    function: str | None
    file: str | None
    line: int | None
    inlined: bool = False


@record
class GdbThread:
    """One thread as gdb walked it."""

    tid: int
    frames: tuple[Frame, ...]
    """Inlined and tail-call frames among them, each before the frame that it belongs to."""
    name: str | None = None
    current: bool = False
    """gdb selected it when it opened the core: the crashed thread, or the first of a snapshot."""
    stopped: str | None = None
    """Why gdb's walk ended early; None when it reached the outermost frame."""


@record
class GdbStacks:
    """All that gdb told; `complete` is False when it was stopped, died, or could not do a part."""

    threads: tuple[GdbThread, ...]
    lines: Mapping[int, tuple[SourceLine, ...]]
    """Source of those of the caller's program counters that gdb's own stacks do not have."""
    instruction_text: str | None
    version: str
    """Its own words; empty if it never answered."""
    complete: bool
    problems: tuple[Problem, ...]

    def thread(self, tid: int) -> GdbThread | None:
        """Return the thread with that ID."""
        return next((t for t in self.threads if t.tid == tid), None)


def frame_of(record: Mapping[str, Any]) -> Frame:
    """Return the frame that `inside` wrote as JSON; raises KeyError, TypeError or ValueError."""
    return Frame(
        function=words(record.get("name")) or "??",
        pc=int(record["pc"]),
        module=words(record.get("module")),
        file=words(record.get("file")),
        line=_number(record.get("line")),
        inlined=bool(record.get("inlined")),
        tail_call=bool(record.get("tail_call")),
        trust=Trust.GDB,
        arguments=_pairs(record.get("arguments")),
        locals=_pairs(record.get("locals")),
    )


def thread_of(record: Mapping[str, Any]) -> GdbThread:
    """Return the thread that `inside` wrote as JSON; raises as `frame_of`."""
    return GdbThread(
        tid=int(record["tid"]),
        frames=tuple(frame_of(frame) for frame in record["frames"]),
        name=words(record.get("name")),
        current=bool(record.get("current")),
        stopped=words(record.get("stopped")),
    )


def lines_of(record: Mapping[str, Any]) -> dict[int, tuple[SourceLine, ...]]:
    """Return source lines by address that `inside` wrote as JSON; raises as `frame_of`."""
    return {
        int(pc): tuple(
            SourceLine(words(function), words(file), _number(line), bool(inlined))
            for function, file, line, inlined in chain
        )
        for pc, chain in record["items"]
    }


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), str(text)) for name, text in value or ())
