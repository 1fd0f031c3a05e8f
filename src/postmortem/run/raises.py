"""Exceptions as the hook in a process has written them down at the moment of the raise."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from postmortem.facts.threads import is_ours
from postmortem.readers.json_values import whole, words
from postmortem.readers.regular import open_regular
from postmortem.records import record

_LARGEST = 16 << 20
_OF_OTHERS = ("/multiprocessing/", "/concurrent/futures/")


@record
class RaiseFrame:
    """One frame, and its values in words."""

    file: str
    line: int
    function: str
    library: bool
    """It is no code of the user's."""
    values: tuple[tuple[str, str], ...] = ()

    @property
    def place(self) -> str:
        """``train.py:9``."""
        return f"{Path(self.file).name}:{self.line}"


@record
class Raise:
    """One exception that nothing caught, or that a process kept as its last."""

    file: str
    """Name of the file that tells of it."""
    time: float
    pid: int
    rank: int | None
    where: str
    """``"main"``, ``"process"`` (a child of multiprocessing), ``"thread"``, ``"ignored"``, or
    ``"last"``: the last that a program has kept which has a hook of its own."""
    thread: str | None
    type: str
    message: str
    traceback: str
    inner: str | None = None
    """``KeyError: 'k'``: of a group its first exception, whose frames are told."""
    frames: tuple[RaiseFrame, ...] = ()
    """The outermost first."""
    document: Mapping[str, object] = MappingProxyType({})
    """All that the file says."""

    @property
    def is_final(self) -> bool:
        """Whether it ended its process."""
        return self.where in ("main", "process")

    @property
    def is_of_others(self) -> bool:
        """Whether it was raised in what talks to other processes, which may have ended."""
        return bool(self.frames) and any(part in self.frames[-1].file for part in _OF_OTHERS)

    @property
    def said(self) -> str:
        """``KeyError: 'k'``."""
        name = self.type.removeprefix("builtins.")
        if self.inner is not None:
            return f"{self.inner} (in an {name})"
        return f"{name}: {self.message.strip()}".rstrip(": ")


def read_raises(folder: Path, problems: list[str]) -> list[Raise]:
    """Return the exceptions that a folder has, in the order of time."""
    found = []
    for path in sorted(folder.glob("*.json")):
        one = _read(path)
        if one is None:
            problems.append(f"{path.name}: was not written to its end")
        else:
            found.append(one)
    return sorted(found, key=lambda one: one.time)


def _read(path: Path) -> Raise | None:
    try:
        with open_regular(path) as stream:
            data = json.loads(stream.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    when, pid, traceback = data.get("time"), whole(data.get("pid")), words(data.get("traceback"))
    if not isinstance(when, float) or pid is None or traceback is None:
        return None
    frames = data.get("frames")
    rows = [row for row in frames if isinstance(row, dict)] if isinstance(frames, list) else []
    kind = words(data.get("type")) or "Exception"
    return Raise(
        file=path.name,
        time=when,
        pid=pid,
        rank=whole(data.get("rank")),
        where=words(data.get("where")) or "main",
        thread=words(data.get("thread")),
        type=kind,
        message=words(data.get("message")) or "",
        traceback=traceback,
        inner=words(data.get("inner")),
        frames=_where(kind, [_frame(row) for row in rows]),
        document=data,
    )


def _where(kind: str, frames: list[RaiseFrame]) -> tuple[RaiseFrame, ...]:
    """Return the frames, of an error by which this package ends a program without its own."""
    theirs = [one for one in frames if not is_ours(one.file)]
    return tuple(theirs if theirs and kind.startswith("postmortem.") else frames)


def _frame(row: dict[str, object]) -> RaiseFrame:
    values = row.get("locals")
    pairs = values.items() if isinstance(values, dict) else ()
    return RaiseFrame(
        file=words(row.get("file")) or "?",
        line=whole(row.get("line")) or 0,
        function=words(row.get("function")) or "?",
        library=row.get("library") is True,
        values=tuple((str(name), str(value)) for name, value in pairs),
    )
