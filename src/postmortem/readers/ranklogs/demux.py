"""Tracebacks out of lines that several processes may have written into each other.

Without prefixes, four ranks that raise together write four tracebacks line by line into one file,
and parts of lines too. What belongs together is told by continuity: a frame goes to the traceback
for which it repeats what another rank has already shown, else to the one that was written to last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import islice

from postmortem.facts.rank_logs import ExceptionText, LogFrame
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.lines import (
    Line,
    Shape,
    flush_left,
    looks_like_log,
    surely_exception,
    with_head,
)
from postmortem.readers.ranklogs.traceback import Building, Traceback

_MOST_OPEN = 4096
_PROCESS = Pattern(r"Process \S+:$")
_RAY = "ray.exceptions.RayTaskError("
_CREATED = "error raised in its creation task, ray::"
"""What Ray says of an actor whose constructor raised."""
_SUMMARY = "Error Message Summary:"
"""Heads, between two rules, what an exception of Paddle says: its C++ stack stands before that."""
_OUTERMOST = ", in <module>"
"""How the frame ends above which nothing but the head of its traceback stands."""
_OF_STACK = (Shape.FRAME, Shape.CODE, Shape.CARET, Shape.REPEATED)
_LONGEST_MESSAGE = 8
"""Lines of a message that are kept."""
_MOST_CALLERS = 64
"""Of one place in a program that are compared."""


class Demuxer:
    """Takes the lines of one writer, in order, and gives its tracebacks."""

    def __init__(self) -> None:
        self._open: dict[int, Building] = {}
        self._begun = 0
        self._framed = 0
        """How many of the open ones have frames."""
        self._calls: dict[tuple[int, tuple[str, int]], int] = {}
        """A tree: from a node, 0 the outermost, by a place that it calls to the next node."""
        self._standing: dict[int, list[int]] = defaultdict(list)
        """Open tracebacks by their node, as heaps; those that have moved on are left in them."""
        self._done: list[Building] = []
        self._last: Building | None = None
        self._kind = "exception"
        self._cause: list[ExceptionText] = []
        self._cause_frames: list[LogFrame] = []
        self._before: Building | None = None
        self._between: list[str] = []
        self._group: Building | None = None
        self._message = 0
        self._headless: Building | None = None
        """A traceback whose head a bar was drawn over: all that is its own follows at once."""
        self._summary = -2
        """Where a block that sums an exception up has its head."""
        self._begins: frozenset[int] = frozenset()
        self._seen: dict[tuple[str, int], dict[int, None]] = defaultdict(dict)
        """The nodes below which others have shown a place."""
        self._first_seen: set[tuple[str, int]] = set()
        self._ends: dict[str, set[int]] = defaultdict(set)
        """Where tracebacks stood when they ended, by their exception."""
        self._indexed = 0

    def take(self, lines: Iterable[Line], begins: Iterable[int] = ()) -> None:
        """Take the lines of one region; no message goes on in a line that begins a record."""
        self._begins = frozenset(begins)
        for line in flush_left(with_head(lines)):
            self._one(line)

    def finish(self) -> tuple[Traceback, ...]:
        """Return all tracebacks, those that were cut off too, in the order of their ends."""
        self._keep_cause()
        self._drop_headless()
        cut = [building for building in self._open.values() if building.frames]
        return tuple(building.done() for building in (*self._done, *cut))

    def _one(self, line: Line) -> None:
        shape = line.shape
        if self._headless is not None and shape not in _OF_STACK:
            if shape is not Shape.EXCEPTION or not surely_exception(line):
                self._drop_headless()
            self._headless = None
        if shape in (Shape.HEAD, Shape.GROUP):
            self._begin(line)
        elif shape is Shape.FRAME:
            self._frame(line)
        elif shape in (Shape.CODE, Shape.CARET, Shape.REPEATED):
            self._below(line)
        elif shape is Shape.EXCEPTION and self._ends_one(line):
            self._end(line)
        elif shape is Shape.CAUSE:
            self._chain(line)
        elif shape is Shape.THREAD:
            self._kind = "thread"
        elif shape is Shape.IGNORED:
            self._kind = "ignored"
        elif shape is Shape.SEPARATOR:
            self._message = 0
            if not any(c.isdigit() for c in line.text):  # the frame of a group closes
                self._group = None
        elif shape in (Shape.OTHER, Shape.EXCEPTION):
            self._plain(line)

    def _begin(self, line: Line) -> None:
        if len(self._open) >= _MOST_OPEN:
            self._close(next(iter(self._open.values())))
        building = Building(self._kind, line, group=line.shape is Shape.GROUP)
        building.causes, self._cause = self._cause, []
        building.cause_frames, self._cause_frames = self._cause_frames, []
        if self._before is not None:
            # The list is taken over: of many exceptions in a chain it would be copied each time.
            lines, self._before.lines = self._before.lines, []
            lines += [*self._between, *building.lines]
            building.lines, building.begin = lines, self._before.begin
            self._before = None
        self._kind = "exception"
        if self._done and self._quotes(self._done[-1], line):
            building.outer = self._done[-1]
        self._add(building)
        self._message = 0

    def _quotes(self, last: Building, line: Line) -> bool:
        """Return whether a traceback is quoted by the message of the last one: it came first.

        PyTorch says so in its head; others end their message of one line with a colon.
        """
        if last.said is None:
            return False
        said = last.said.message
        goes_on = line.ordinal <= last.ordinal + 2 and said.endswith(":") and "\n" not in said
        return line.text.startswith("Original Traceback") or goes_on

    def _add(self, building: Building) -> None:
        self._begun += 1
        building.serial = self._begun
        self._open[building.serial] = building
        heappush(self._standing[0], building.serial)
        self._last = building

    def _close(self, building: Building) -> None:
        del self._open[building.serial]
        self._framed -= bool(building.frames)

    def _drop_headless(self) -> None:
        if self._headless is not None and self._is_open(self._headless):
            self._close(self._headless)
            self._headless = None

    def _is_open(self, building: Building | None) -> bool:
        return building is not None and building.serial in self._open

    def _newest(self) -> Building:
        return next(reversed(self._open.values()))

    def _first_at(self, node: int) -> Building | None:
        """Return the open traceback that begins first of those whose frames lead to a node."""
        heap = self._standing.get(node, [])
        while heap:
            building = self._open.get(heap[0])
            if building is not None and building.at == node:
                return building
            heappop(heap)
        return None

    def _first_of(self, nodes: Iterable[int]) -> Building | None:
        there = [building for node in nodes if (building := self._first_at(node)) is not None]
        return min(there, key=lambda building: building.serial, default=None)

    def _below_of(self, node: int, place: tuple[str, int]) -> int:
        return self._calls.setdefault((node, place), len(self._calls) + 1)

    def _frame(self, line: Line) -> None:
        outermost = line.text.endswith(_OUTERMOST) and not self._message
        if not self._open and (line.function is None or outermost):  # a SyntaxError has no head
            self._begin(line)
            self._newest().lines.remove(line.text)
            self._newest().syntax = not outermost
            self._headless = self._newest() if outermost else None
        if not self._open:
            return
        building = self._taker(line)
        self._framed += not building.frames
        building.take(line)
        self._last = building
        frame = building.frames[-1]
        here, above = (frame.file, frame.line), building.at
        building.at = self._below_of(above, here)
        heappush(self._standing[building.at], building.serial)
        if len(self._open) > 1:
            self._seen[here][above] = None
            first = building.frames[0]
            self._first_seen.add((first.file, first.line))

    def _taker(self, line: Line) -> Building:
        """Return the open traceback that a frame goes on with."""
        if len(self._open) == 1:
            return self._newest()
        here = (line.file or "", line.at)
        seen = self._seen.get(here)
        repeats = self._first_of(islice(seen, _MOST_CALLERS)) if seen else None
        if repeats is not None:
            return repeats
        if here in self._first_seen and (self._last is None or self._last.frames):
            fresh = self._first_at(0)
            if fresh is not None:
                return fresh  # a traceback begins where those of this program begin
        return self._last if self._last and self._is_open(self._last) else self._newest()

    def _below(self, line: Line) -> None:
        if self._open:
            building = self._last if self._last and self._is_open(self._last) else self._newest()
            building.take(line)
        elif self._message and self._done:
            self._plain(line)

    def _ends_one(self, line: Line) -> bool:
        if self._framed:
            return True
        # What a program had still to print may stand between a head and its frames.
        headed = any(not building.syntax for building in self._open.values())
        return headed and surely_exception(line)

    def _end(self, line: Line) -> None:
        last = self._last
        building = last if last and last.frames and self._is_open(last) else None
        if self._framed > 1:
            # Of several, one that stands where another stood when it ended with the same words.
            building = self._first_of(self._ends_of(line.exception or "")) or building
        if building is None and self._framed:
            building = next(one for one in reversed(self._open.values()) if one.frames)
        building = building or self._newest()
        self._close(building)
        building.end(line)
        # "KeyboardInterrupt" alone has no message that could go on.
        self._message = 0 if line.text.rstrip() == line.exception else _LONGEST_MESSAGE
        if self._group is not None and building.framed:
            assert building.said is not None
            self._group.parts.append(building.said)
            return
        carrier = building.outer or building
        if building.outer is not None:
            building.outer.began_with(building)
        else:
            self._group = building if building.group else None
            self._done.append(building)
        if line.exception is not None and (
            line.exception.startswith(_RAY) or _CREATED in line.message
        ):
            # ray/exceptions.py: the remote process's frames and error follow, without a head; they
            # may be those of another such error.
            carrier.remote = line.message
            inner = Building(building.kind, line)
            inner.lines, inner.outer = [], carrier
            self._add(inner)
            self._message = 0

    def _ends_of(self, exception: str) -> Iterable[int]:
        """Return the nodes where tracebacks ended with an exception."""
        for done in self._done[self._indexed :]:
            if done.said is not None and done.frames:
                node = 0
                for frame in done.frames:
                    node = self._below_of(node, (frame.file, frame.line))
                self._ends[done.said.exception].add(node)
        self._indexed = len(self._done)
        ends = self._ends.get(exception, set())
        if len(ends) <= len(self._open):
            return ends
        return {one.at for one in self._open.values() if one.frames and one.at in ends}

    def _plain(self, line: Line) -> None:
        """More of a message, if it can be."""
        if line.text == _SUMMARY and self._done and not self._open:
            self._summary = line.ordinal
        elif self._done and line.ordinal == self._summary + 2 and not self._open:
            last = self._done[-1]
            if last.said is not None and not last.said.message:
                last.ordinal, self._message = line.ordinal - 1, _LONGEST_MESSAGE
        if not self._message or not self._done or self._open:
            return
        last = self._done[-1]
        # A pool quotes the traceback of its process (multiprocessing/pool.py, RemoteTraceback).
        # A process of multiprocessing writes its name above a traceback of its own.
        quoted = line.text == '"""' or _PROCESS.match(line.text) is not None
        blank = last.said is not None and last.said.message.endswith(":")  # it announces more
        logged = line.number in self._begins or looks_like_log(line.text)
        if quoted or logged or line.ordinal > last.ordinal + 1 + blank:
            self._message = 0
            return
        self._message -= 1
        last.lengthen(line)

    def _keep_cause(self) -> None:
        """Put back what another exception was to follow, where none has."""
        if self._before is not None:
            self._before.causes.pop()
            self._done.append(self._before)
            self._before = None

    def _chain(self, line: Line) -> None:
        self._message = 0
        self._keep_cause()
        if line.margin and self._group is not None:
            return  # inside of a group: its tree tells
        if self._done:
            cause = self._done.pop()
            self._kind = cause.kind  # whose it is stands above the whole chain
            self._indexed = min(self._indexed, len(self._done))
            if cause.said is not None:
                cause.causes.append(cause.said)
                self._cause = cause.causes
                self._cause_frames = cause.frames
                self._before, self._between = cause, ["", line.text, ""]
