"""A stack at the end of a log, of any language, whose head is cut off or of no known form."""

from collections.abc import Callable, Sequence

from postmortem.facts.last_lines import LastLine
from postmortem.readers.ranklogs.last_words import calm, is_frame, shown_only, survived

_FEWEST = 2
_MOST_BELOW = 2
"""Lines below the frames: what was raised stands there, where the innermost frame comes last."""


def stack_at_end(
    lines: Sequence[LastLine], ids: Sequence[Sequence[str]], goes_on: Callable[[int], bool]
) -> LastLine | None:
    """Return what says the most of a stack behind which nothing goes on.

    That is the line below its frames, or the one above them, or the innermost frame.
    """
    below: list[int] = []
    last = len(lines) - 1
    while last >= 0 and not is_frame(ids[last]):
        if _survived(lines[last], ids[last]) or len(below) == _MOST_BELOW:
            return None
        if not goes_on(last):
            below.append(last)
        last -= 1
    above, frames = last, 0
    while above >= 0 and (is_frame(ids[above]) or goes_on(above)):
        frames += is_frame(ids[above])
        above -= 1
    with_source = (
        bool(below) and last + 1 < below[-1]
    )  # a frame, the line it is at, what was raised
    if frames + with_source < _FEWEST or (above >= 0 and shown_only(ids[above])):
        return None
    if below:
        return lines[below[-1]]
    return lines[last if above < 0 or _survived(lines[above], ids[above]) else above]


def _survived(line: LastLine, names: Sequence[str]) -> bool:
    """Return whether a line tells of work, or is no error by its own word."""
    return bool(line.since) or survived(names) or calm(names)
