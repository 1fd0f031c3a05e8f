"""A stack at the end of a log, of any language, whose head is cut off or of no known form."""

from collections.abc import Callable, Sequence

from postmortem.facts.last_lines import LastLine
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_words import (
    Ids,
    calm,
    is_frame,
    shown_only,
    survived,
    told_by,
)
from postmortem.readers.ranklogs.lines import Shape, shape_of

_NATIVE = Pattern(
    r"(?:^|[\s!(:>?])[A-Za-z_.$~][\w.$~@:<>,*&-]* ?\+ ?0x[0-9a-f]+(?:/\S*0x[0-9a-f]+)?[)\]]?"
    r"(?: \S* ?0x[0-9a-f]+)?(?: [\[(<].*)?$"
    r"|^(?:=>|\s*)(?:\w{0,3}#)?\d{1,3}:? +(?:[a-z]{1,3} )?(?:0x[0-9a-f]{5,16}|[0-9a-f]{8,16})"
    r"(?: +\S|$)"
    r"|^\s*\S+ \[0x[0-9A-F]{8,16}\+\d+\]$"
    r"|^\s*\[<[0-9a-f]{8,16}>\] "
    r"|^\d+ +\S.* 0x[0-9a-f]{8,16} .* \+ \d+$"
    r"|^\s*0x[0-9a-f]{8,16} +- +0x[0-9a-f]{8,16} +\S|^[0-9a-f]{8,16}-[0-9a-f]{8,16} \S{3}p "
    r"|^[\w./*()-]+\.[\w.*()]+\((?:0x[0-9a-f]|\{0x|\.\.\.).*\)$"
    r"|\([\w@.]*\+0x[0-9a-f]+\) ?\[0x[0-9a-f]+\]$|^(?:\[[\w.-]+:\d+\] )?\[ ?\d+\] /\S+\("
    r"|^-> \d{4} "  # of a notebook's, in a long source
)
"""A frame of a native stack, as debuggers, handlers of signals, kernels and Go print one: a name
with an offset, a number with an address; and the map of memory below one."""
_DUMPED = Pattern(
    r"^\s*>?(?:0x)?[0-9a-f]{8,16}:?(?:\s+(?:0x)?(?:[0-9a-f]{2}){1,8}\b){2,}"
    r"|^\s*\w{2,4}: (?:0x)?[0-9a-f]{8,16}$|^=+ (?:[A-Za-z ]+:|backtrace .*) =+$"
    r"|^\s*(?:\w{1,10}(?: ?[:=] ?|[:=]? +)(?:0x)?[0-9a-f]{8,16}(?:\(\w+\))?[,;]?(?:\s+|$)){2,}"
)
"""Memory or registers, which stand beside a stack, and a heading of such parts."""
_LEVELLED = Pattern(r'[\]:|)] +File "[^"]+", line \d+, in \S')
_INDENTED = Pattern(r"[\]:|)] {3,}\S")
"""A frame of Python's, and whatever is indented, behind what a logger writes before a line."""
_OTHERS = "last-others-ended"
"""Who ends the others says so at any level: below a stack that is why."""
_FEWEST = 2
_MOST_BELOW = 2
"""Lines below the frames: what was raised stands there, where the innermost frame comes last."""


def cut_at_level(texts: Sequence[str]) -> bool:
    """Return whether lines of a logger end within a stack of Python's, which has no head."""
    return _INDENTED.search(texts[-1]) is not None and any(map(_LEVELLED.search, texts))


def stack_at_end(
    lines: Sequence[LastLine], ids: Sequence[Ids], goes_on: Callable[[int], bool]
) -> LastLine | None:
    """Return what says the most of a stack behind which nothing goes on.

    That is the line below its frames, or the one above them, or the innermost frame.
    """
    below: list[int] = []
    last = len(lines) - 1
    while last >= 0 and not _is_frame(lines[last], ids[last]):
        indented = last > 0 and lines[last].text[:1] == " "
        source = indented and _is_frame(lines[last - 1], ids[last - 1])
        if _survived(lines[last], ids[last]) and not source:
            return None
        if not (source or goes_on(last)) and _OTHERS not in ids[last]:
            if len(below) == _MOST_BELOW:
                return None
            below.append(last)
        last -= 1
    above, frames = last, 0
    while above >= 0 and ((frame := _is_frame(lines[above], ids[above])) or goes_on(above)):
        frames += frame
        above -= 1
    with_source = (
        bool(below) and last + 1 < below[-1]
    )  # a frame, the line it is at, what was raised
    if frames + with_source < _FEWEST or (above >= 0 and shown_only(ids[above])):
        return None
    cut = told_by(lines[last].text, ids[last]) == "frame"  # what was raised stood below it
    if below and (not cut or _is_exception(lines[below[-1]])):
        return lines[below[-1]]
    return lines[last if cut or above < 0 or _survived(lines[above], ids[above]) else above]


def _is_exception(line: LastLine) -> bool:
    return shape_of(line.line, line.line, line.text).shape is Shape.EXCEPTION


def _survived(line: LastLine, names: Ids) -> bool:
    """Return whether a line tells of work, or is no error by its own word."""
    return bool(line.since) or survived(names) or (calm(names) and _OTHERS not in names)


def framed(text: str) -> bool:
    """Return whether a line is a frame of a native stack."""
    may = (
        "0x" in text
        or "[<" in text
        or "] /" in text
        or "p 0" in text
        or text.lstrip().startswith(("#", "->"))
    )  # costs less
    return may and _NATIVE.search(text) is not None


def dumped(text: str) -> bool:
    """Return whether a line is what a crash's report shows beside its stack."""
    return framed(text) or _DUMPED.search(text) is not None


def _is_frame(line: LastLine, names: Ids) -> bool:
    return is_frame(names) or framed(line.text)
