"""What ``postmortem hang`` printed of one process: its rank and where it stood, no more."""

from collections.abc import Iterator

from postmortem.facts.stackdumps import StackDump
from postmortem.facts.threads import Thread
from postmortem.patterns import Pattern
from postmortem.readers.stackdumps.frames import Interned

TOOL = "text of postmortem hang"
FOOT = Pattern(r"^\d{1,9}(?:\.\d{1,3})? m?s · 1 process, \d{1,9} samples?\b")
_RANK = Pattern(r"\brank (?P<rank>\d{1,7})\b")
_PLACE = Pattern(r"^  (?P<file>\S.{0,400}):(?P<line>\d{1,9})  in (?P<function>.{1,200})$")


def read_text(lines: list[str], frames: Interned) -> list[StackDump]:
    """Return a dump for each look at one rank, in their order."""
    return list(_looks(lines, frames))


def _looks(lines: list[str], frames: Interned) -> Iterator[StackDump]:
    rank: int | None = None
    thread: Thread | None = None
    for line in lines:
        if FOOT.match(line):
            if rank is not None and thread is not None:
                yield StackDump(tool=TOOL, threads=(thread,), rank=rank)
            rank = thread = None
        elif thread is None and (place := _PLACE.match(line)) is not None:
            at = int(place["line"])
            frame = frames.frame(place["function"], kind="python", file=place["file"], line=at)
            thread = Thread(tid=0, frames=(frame,))
        elif rank is None and thread is None and (told := _RANK.search(line)) is not None:
            rank = int(told["rank"])
