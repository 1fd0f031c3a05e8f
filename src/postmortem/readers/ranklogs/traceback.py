"""One traceback out of a log, as its lines come."""

from __future__ import annotations

from postmortem.facts.rank_logs import ExceptionText, LogFailure, LogFrame
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.lines import Line, Shape
from postmortem.records import record

_OF_THREAD, _TAKEN_DOWN, _AT_EXIT = "_bootstrap_inner", "__del__", "atexit"
_WRAPPED = Pattern(r"^ ?[a-z].{40}")
"""How the rest of a line goes on that a console has broken."""
_MOST_FRAMES = 1000
"""Of exceptions that are raised again and again in one traceback."""


@record
class Traceback:
    """One traceback, whole or in part."""

    kind: str
    said: ExceptionText
    frames: tuple[LogFrame, ...]
    causes: tuple[ExceptionText, ...]
    parts: tuple[ExceptionText, ...]
    text: str
    begin: int
    line: int
    ordinal: int
    remote: str = ""
    """What Ray says of the process that raised, if it was another one."""
    rank: int | None = None
    """The rank that raised, where another one quotes its traceback."""

    def failure(self, writer: int, file: str) -> LogFailure:
        """Return what it says of its writer, as far as it tells by itself.

        What a handler of logging could not write is printed by it, and nothing raises; nor does
        what Python calls as it takes an object down, or once the program is over.
        """
        first = self.frames[0] if self.frames else None
        name = (first.function or "").strip("'`") if first is not None else ""
        printed = first is not None and (
            (name == "emit" and "/logging/" in first.file)
            or name == _TAKEN_DOWN
            or _AT_EXIT in name
        )
        return LogFailure(
            kind="ignored" if printed else self.kind,
            said=self.said,
            writer=writer,
            file=file,
            line=self.line,
            frames=self.frames,
            causes=self.causes,
            parts=self.parts,
            text=self.text,
            begin_line=self.begin,
        )


class Building:
    """A traceback as its lines come."""

    def __init__(self, kind: str, line: Line, *, group: bool = False) -> None:
        self.kind = kind
        self.begin = line.number
        self.frames: list[LogFrame] = []
        self.framed = line.margin
        self.rank = line.rank
        self.outer: Building | None = None
        self.remote = ""
        """Whose traceback it is, where another process of Ray raised: ``ray::Name.f() (pid=…)``."""
        self.lines = [line.text] if line.text else []
        self.causes: list[ExceptionText] = []
        self.parts: list[ExceptionText] = []
        self.group = group
        self.at = 0
        """Where its frames lead, in a tree of all calls."""
        self.serial = 0
        self.cause_frames: list[LogFrame] = []
        """Of the exception that it was raised from."""
        self.said: ExceptionText | None = None
        self.line = line.number
        self.ordinal = line.ordinal
        self.syntax = False
        self.width = 0
        """Of the console that broke its message into lines; 0 where none did."""

    def take(self, line: Line) -> None:
        self.lines.append(line.text)
        self.line, self.ordinal = line.number, line.ordinal
        if line.shape is Shape.FRAME and line.file is not None:
            if not self.frames and line.function == _OF_THREAD and self.kind == "exception":
                self.kind = "thread"  # the line that names it may stand above another traceback
            self.frames.append(LogFrame(line.file, line.at, line.function))
        elif line.shape is Shape.CODE and self.frames and self.frames[-1].code is None:
            last = self.frames.pop()
            self.frames.append(LogFrame(last.file, last.line, last.function, line.text.strip()))

    def end(self, line: Line) -> None:
        assert line.exception is not None
        self.lines.append(line.text)
        self.line, self.ordinal = line.number, line.ordinal
        self.said = ExceptionText(line.exception, line.message)
        again = bool(self.causes) and self.causes[-1] == self.said
        if again and len(self.frames) + len(self.cause_frames) <= _MOST_FRAMES:
            # A pool's process raised it, and it is raised once more where its result was asked for.
            self.frames += self.cause_frames

    def lengthen(self, line: Line) -> None:
        assert self.said is not None
        if _WRAPPED.match(line.text) and len(self.lines[-1]) in (len(line.text), self.width):
            self.width = len(self.lines[-1])  # of a console that breaks lines: PowerShell
        gap = "" if self.width and len(self.lines[-1]) == self.width else "\n"
        self.lines.append(line.text)
        self.ordinal = line.ordinal
        message = f"{self.said.message}{gap}{line.text}".lstrip()
        self.said = ExceptionText(self.said.exception, message if self.width else message.rstrip())

    def began_with(self, origin: Building) -> None:
        """Take the traceback of another process that the message quotes (torch/_utils.py)."""
        assert self.said is not None
        assert origin.said is not None
        self.lines += ["", *origin.lines]
        self.line, self.ordinal = origin.line, origin.ordinal
        self.frames += origin.frames
        self.causes = [*origin.causes, origin.said, *self.causes]
        if self.remote:  # what Ray makes of an error is the error itself, and who raised it
            self.said, self.causes = origin.said, origin.causes
            return
        self.said = ExceptionText(self.said.exception, f"{self.said.message}\n{origin.said.words}")

    def done(self) -> Traceback:
        said = self.said or ExceptionText("", "")
        return Traceback(
            self.kind,
            said,
            tuple(self.frames),
            tuple(self.causes),
            tuple(self.parts),
            "\n".join(self.lines),
            self.begin,
            self.line,
            self.ordinal,
            self.remote,
            self.rank,
        )
