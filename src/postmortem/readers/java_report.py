"""What the JVM wrote about its own crash, beside the core: hs_err_pidPID.log."""

from collections.abc import Iterator
from itertools import dropwhile, islice, takewhile
from pathlib import Path

from postmortem.readers.ranklogs.native_stacks import native_frame

_OF_JAVA = ("j  ", "J ")
_OF_STACK = ("V  [", "C  [", *_OF_JAVA)
_READ = 256 << 10
_SHOWN = 4


def java_frames_beside(core: Path, pid: int) -> str | None:
    """Return the innermost frames of Java in the report of that process, and where it is."""
    path = core.parent / f"hs_err_pid{pid}.log"
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            frames = tuple(islice(_frames(stream.read(_READ).splitlines()), _SHOWN))
    except OSError:
        return None
    return f"{path.name}, beside the core, has them: {' ← '.join(frames)}" if frames else None


def _frames(lines: list[str]) -> Iterator[str]:
    stack = dropwhile(lambda line: not line.startswith(_OF_STACK), lines)
    for line in takewhile(str.strip, stack):
        frame = native_frame(line)
        if frame is not None and line.startswith(_OF_JAVA):
            yield frame.function
