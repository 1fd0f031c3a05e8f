"""Tracebacks out of lines that several processes may have written into each other.

Without prefixes, four ranks that raise together write four tracebacks line by line into one file,
and parts of lines too. What belongs together is told by continuity: a frame goes to the traceback
for which it repeats what another rank has already shown, else to the one that was written to last.
"""

from __future__ import annotations

from collections.abc import Iterable

from postmortem.facts.rank_logs import LogFrame, Said
from postmortem.readers.ranklogs.lines import Line, Shape, looks_like_log
from postmortem.records import record

_MOST_OPEN = 4096
_RAY = "ray.exceptions.RayTaskError("
_LONGEST_MESSAGE = 8
"""Lines of a message that are kept."""


@record
class Traceback:
    """One traceback, whole or in part."""

    kind: str
    said: Said
    frames: tuple[LogFrame, ...]
    causes: tuple[Said, ...]
    parts: tuple[Said, ...]
    text: str
    begin: int
    line: int
    ordinal: int
    remote: str = ""
    """What Ray says of the process that raised, if it was another one."""
    rank: int | None = None
    """The rank that raised, where another one quotes its traceback."""


class _Building:
    """A traceback as its lines come."""

    def __init__(self, kind: str, line: Line, *, group: bool = False) -> None:
        self.kind = kind
        self.begin = line.number
        self.frames: list[LogFrame] = []
        self.framed = line.margin
        self.rank = line.rank
        self.outer: _Building | None = None
        self.remote = ""
        """Whose traceback it is, where another process of Ray raised: ``ray::Name.f() (pid=…)``."""
        self.lines = [line.text]
        self.causes: tuple[Said, ...] = ()
        self.parts: list[Said] = []
        self.group = group
        self.cause_frames: list[LogFrame] = []
        """Of the exception that it was raised from."""
        self.said: Said | None = None
        self.line = line.number
        self.ordinal = line.ordinal
        self.syntax = False

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        return tuple((frame.file, frame.line) for frame in self.frames)

    def take(self, line: Line) -> None:
        self.lines.append(line.text)
        self.line, self.ordinal = line.number, line.ordinal
        if line.shape is Shape.FRAME and line.file is not None:
            self.frames.append(LogFrame(line.file, line.at, line.function))
        elif line.shape is Shape.CODE and self.frames and self.frames[-1].code is None:
            last = self.frames.pop()
            self.frames.append(LogFrame(last.file, last.line, last.function, line.text.strip()))

    def end(self, line: Line) -> None:
        assert line.exception is not None
        self.lines.append(line.text)
        self.line, self.ordinal = line.number, line.ordinal
        self.said = Said(line.exception, line.message)
        if self.causes and self.causes[-1] == self.said:
            # A pool's process raised it, and it is raised once more where its result was asked for.
            self.frames += self.cause_frames

    def lengthen(self, line: Line) -> None:
        assert self.said is not None
        self.lines.append(line.text)
        self.ordinal = line.ordinal
        self.said = Said(self.said.exception, f"{self.said.message}\n{line.text}".strip())

    def began_with(self, origin: _Building) -> None:
        """Take the traceback of another process that the message quotes (torch/_utils.py)."""
        assert self.said is not None
        assert origin.said is not None
        self.lines += ["", *origin.lines]
        self.line, self.ordinal = origin.line, origin.ordinal
        self.frames += origin.frames
        self.causes = (*origin.causes, origin.said, *self.causes)
        if self.remote:  # what Ray makes of an error is the error itself, and who raised it
            self.said, self.causes = origin.said, origin.causes
            return
        self.said = Said(self.said.exception, f"{self.said.message}\n{origin.said.words}")

    def done(self) -> Traceback:
        said = self.said or Said("", "")
        return Traceback(
            self.kind,
            said,
            tuple(self.frames),
            self.causes,
            tuple(self.parts),
            "\n".join(self.lines),
            self.begin,
            self.line,
            self.ordinal,
            self.remote,
            self.rank,
        )


class Unmixer:
    """Takes the lines of one writer, in order, and gives its tracebacks."""

    def __init__(self) -> None:
        self._open: list[_Building] = []
        self._done: list[_Building] = []
        self._last: _Building | None = None
        self._kind = "exception"
        self._cause: tuple[Said, ...] = ()
        self._cause_frames: list[LogFrame] = []
        self._before: _Building | None = None
        self._between: list[str] = []
        self._group: _Building | None = None
        self._message = 0
        self._seen: set[tuple[tuple[str, int], ...]] = set()

    def take(self, lines: Iterable[Line]) -> None:
        """Take the lines of one region."""
        for line in lines:
            self._one(line)

    def finish(self) -> tuple[Traceback, ...]:
        """Return all tracebacks, those that were cut off too, in the order of their ends."""
        cut = [building for building in self._open if building.frames]
        return tuple(building.done() for building in (*self._done, *cut))

    def _one(self, line: Line) -> None:
        shape = line.shape
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
            self._open.pop(0)
        building = _Building(self._kind, line, group=line.shape is Shape.GROUP)
        building.causes, self._cause = self._cause, ()
        building.cause_frames, self._cause_frames = self._cause_frames, []
        if self._before is not None:
            building.lines[:0] = [*self._before.lines, *self._between]
            building.begin = self._before.begin
            self._before = None
        self._kind = "exception"
        if line.text.startswith("Original Traceback") and self._done and self._done[-1].said:
            building.outer = self._done[-1]
        self._open.append(building)
        self._last = building
        self._message = 0

    def _frame(self, line: Line) -> None:
        if line.function is None and not self._open:  # a SyntaxError has no head
            self._begin(line)
            self._open[-1].lines.remove(line.text)
            self._open[-1].syntax = True
        if not self._open:
            return
        building = self._taker(line)
        building.take(line)
        self._last = building
        if len(self._open) > 1:
            self._seen.add(building.places)

    def _taker(self, line: Line) -> _Building:
        """Return the open traceback that a frame goes on with."""
        if len(self._open) == 1:
            return self._open[0]
        here = (line.file or "", line.at)
        for building in self._open:
            if (*building.places, here) in self._seen:
                return building
        fresh = [building for building in self._open if not building.frames]
        begins_so = any(places and places[0] == here for places in self._seen)
        if fresh and begins_so and (self._last is None or self._last.frames):
            return fresh[0]  # a traceback begins where those of this program begin
        return self._last if self._last in self._open else self._open[-1]

    def _below(self, line: Line) -> None:
        if self._open:
            building = self._last if self._last in self._open else self._open[-1]
            building.take(line)
        elif self._message and self._done:
            self._plain(line)

    def _ends_one(self, line: Line) -> bool:
        return any(building.frames or not building.syntax for building in self._open)

    def _end(self, line: Line) -> None:
        with_frames = [building for building in self._open if building.frames]
        chosen = self._last if self._last in with_frames else None
        if len(with_frames) > 1:
            # Of several, one that stands where another stood when it ended with the same words.
            ends = {b.places for b in self._done if b.said and b.said.exception == line.exception}
            chosen = next((b for b in with_frames if b.places in ends), chosen)
        building = chosen or (with_frames[-1] if with_frames else self._open[-1])
        building.end(line)
        self._open.remove(building)
        self._message = _LONGEST_MESSAGE
        if self._group is not None and building.framed:
            assert building.said is not None
            self._group.parts.append(building.said)
            return
        if building.outer is not None:
            building.outer.began_with(building)
            return
        self._group = building if building.group else None
        self._done.append(building)
        if line.exception is not None and line.exception.startswith(_RAY):
            # ray/exceptions.py: the remote process's frames and error follow, without a head
            building.remote = line.message
            inner = _Building(building.kind, line)
            inner.lines, inner.outer = [], building
            self._open.append(inner)
            self._last = inner
            self._message = 0

    def _plain(self, line: Line) -> None:
        """More of a message, if it can be."""
        if not self._message or not self._done or self._open:
            return
        last = self._done[-1]
        # A pool quotes the traceback of its process (multiprocessing/pool.py, RemoteTraceback).
        quoted = line.text == '"""'
        if quoted or looks_like_log(line.text) or line.ordinal > last.ordinal + 1:
            self._message = 0
            return
        self._message -= 1
        last.lengthen(line)

    def _chain(self, line: Line) -> None:
        self._message = 0
        if line.margin and self._group is not None:
            return  # inside of a group: its tree tells
        if self._done:
            cause = self._done.pop()
            if cause.said is not None:
                self._cause = (*cause.causes, cause.said)
                self._cause_frames = cause.frames
                self._before, self._between = cause, ["", line.text, ""]
