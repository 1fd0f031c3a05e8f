"""Single lines of Python's tracebacks and of what stands around them."""

import re
from collections.abc import Iterable, Iterator
from enum import Enum

from postmortem import thresholds
from postmortem.patterns import Pattern
from postmortem.records import record


class Shape(Enum):
    """What a line is in a traceback."""

    HEAD = "head"
    FRAME = "frame"
    CODE = "code"
    CARET = "caret"
    REPEATED = "repeated"
    CAUSE = "cause"
    EXCEPTION = "exception"
    THREAD = "thread"
    IGNORED = "ignored"
    GROUP = "group"
    SEPARATOR = "separator"
    BLANK = "blank"
    OTHER = "other"


@record
class Line:
    """One line, told apart."""

    shape: Shape
    text: str
    number: int
    ordinal: int
    file: str | None = None
    at: int = 0
    function: str | None = None
    exception: str | None = None
    message: str = ""
    rank: int | None = None
    """Whose traceback a head says that it is, where another rank quotes it."""
    margin: bool = False
    """It stands in the frame that is drawn around an exception group."""


TRACEBACK = b"Traceback (most recent call last):"
_FRAME = Pattern(
    r'^(?P<indent> *)File "(?P<file>[^"]*)", line (?P<line>\d{1,9})(?:,? in (?P<function>.+))?$'
)
# torch/distributed/checkpoint/api.py quotes the tracebacks of other ranks: "… last): (RANK 2)"
_HEAD = Pattern(
    r"(?<!C\+\+ )(?P<group>Exception Group )?Traceback "
    r"\(most recent call(?: last|s WITHOUT Sacred internals)\)(?:: \(RANK (?P<rank>\d{1,7})\))?"
)
# What rich draws in a box: "│ train.py:15 in <module>    │", and below it "│ ❱ 15 │   fit()    │".
_BOXED = Pattern(
    r"^[│|] (?:(?P<file>[^\s❱>].*):(?P<line>\d{1,9}) in ?(?P<function>\S*)"
    r"|[❱>] +\d+ [│|]?[│ ]*(?P<code>\S.*?))\s*[│|]?$"
)
_MARGIN = Pattern(r"^ *[|+] ?")
_SEPARATOR = Pattern(r"^ *\+-[+-]*-+ ?(?:\d+|\.\.\.)? ?-*$")
_CARET = Pattern(r"^\s*[~^]+[~^ ]*$")
# The class of an exception ends as such classes do, or has its module before it, or its name is in
# CamelCase and nothing else: a message of any program may begin with a word and a colon. A word in
# capitals without more ("STDERR:") is a heading.
_EXCEPTION = Pattern(
    r"^(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*"
    r"(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Iteration|Group|Failure|Abort|NotMet"
    r"|Mismatch|Cancelled|Expired|NotFound|Killed|Closed|Refused)\d*(?:\(\w+\))?)"
    r"(?:: (?P<message>.*)|:)?$"
)
_ANY_EXCEPTION = Pattern(
    r"^(?![A-Z_]+:$)(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w+|(?:[A-Za-z_]\w*\.)+[a-z]\w*)"
    r"(?:: (?P<message>.*)|:)?$"
)
_THREAD = Pattern(
    r"^Exception in thread (?P<name>.*):$|(?:^|[: ])(?:Task|Future) exception was never retrieved$"
)
IGNORED = ("Exception ignored ", "Error in atexit._run_exitfuncs:")
"""How Python begins to tell of an exception by which nothing ends, the second up to 3.9."""
_LOG_WORDS = frozenset({"INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL", "FATAL", "NOTE", "WARN"})


_CUT_OFF = 3
_WITHIN = (Shape.FRAME, Shape.CODE, Shape.CARET, Shape.REPEATED)


def shape_of(number: int, ordinal: int, text: str) -> Line:
    """Return what a line is; `text` has no prefix any more."""
    if not text.strip(" \t\r\n│"):
        return Line(Shape.BLANK, text, number, ordinal)
    if _SEPARATOR.match(text):
        return Line(Shape.SEPARATOR, text, number, ordinal)
    if text[0] == "│" or (text[0] == "|" and text.rstrip()[-1] == "|"):
        return _in_box(number, ordinal, text, _BOXED.match(text))
    margin = _MARGIN.match(text)
    body = text[margin.end() :] if margin else text
    if not body.strip():
        return Line(Shape.BLANK, text, number, ordinal)
    framed = margin is not None
    head = _HEAD.search(body) if "Traceback" in body else None
    if head and not _quotes_one(body, head.end()):
        shape = Shape.GROUP if head["group"] else Shape.HEAD
        rank = int(head["rank"]) if head["rank"] else None
        return Line(shape, body, number, ordinal, rank=rank, margin=framed)
    frame = _FRAME.match(body) if 'File "' in body else None
    if frame:
        return Line(
            Shape.FRAME, body, number, ordinal, frame["file"], int(frame["line"]), frame["function"]
        )
    if body.lstrip().startswith("[Previous line repeated"):
        return Line(Shape.REPEATED, body, number, ordinal)
    if "direct cause of the following exception" in body or "During handling of the above" in body:
        return Line(Shape.CAUSE, body, number, ordinal, margin=framed)
    if body.startswith(IGNORED):
        return Line(Shape.IGNORED, body, number, ordinal)
    thread = _THREAD.search(body)
    if thread:
        return Line(Shape.THREAD, body, number, ordinal, function=thread["name"])
    if body[0] in " \t":
        shape = Shape.CARET if _CARET.match(body) else Shape.CODE
        return Line(shape, body, number, ordinal)
    return _plain(number, ordinal, body)


def _in_box(number: int, ordinal: int, text: str, found: re.Match[str] | None) -> Line:
    """Return what a line in a box is, as Python writes it; of the code there one line was run."""
    if found is None:
        return Line(Shape.BLANK, text, number, ordinal)
    if found["code"] is not None:
        return Line(Shape.CODE, f"    {found['code']}", number, ordinal)
    file, at, function = found["file"], int(found["line"]), found["function"] or None
    frame = f'  File "{file}", line {at}' + (f", in {function}" if function else "")
    return Line(Shape.FRAME, frame, number, ordinal, file, at, function)


def _quotes_one(body: str, end: int) -> bool:
    """Return whether a line is an exception that holds a traceback as Python writes a string."""
    return "\\n" in body[end:] and _EXCEPTION.match(body) is not None


def flush_left(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines; those of a traceback that a report indents as a whole, without that."""
    indent = ""
    for line in lines:
        text = line.text
        if line.shape in (Shape.HEAD, Shape.GROUP):
            begins = text[: len(text) - len(text.lstrip())]
            indent = begins if text.startswith(f"{begins}Traceback") else ""
        elif line.shape is not Shape.BLANK and not text.startswith(indent):
            indent = ""
        there = indent and line.shape is not Shape.BLANK
        yield shape_of(line.number, line.ordinal, text[len(indent) :]) if there else line


def with_head(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines, with an empty head where the file begins with the rest of a traceback.

    Nothing but its exception may stand behind that, and above it what belongs to a frame that is
    cut off: its code, and marks below that.
    """
    rest = iter(lines)
    top: list[Line] = []
    for line in rest:
        top.append(line)
        if line.number - top[0].number != len(top) - 1 or line.shape not in _WITHIN:
            break
    begin = top[0].number if top else 0
    whole = 0 < begin <= _CUT_OFF and top[-1].number - begin == len(top) - 1
    calls = any(one.shape is Shape.FRAME and one.function is not None for one in top)
    if whole and calls and top[-1].shape is Shape.EXCEPTION:
        yield Line(Shape.HEAD, "", begin, top[0].ordinal)
    yield from top
    yield from rest


def _plain(number: int, ordinal: int, body: str) -> Line:
    found = _EXCEPTION.match(body) or _ANY_EXCEPTION.match(body)
    if found and found["name"] not in _LOG_WORDS:
        return Line(
            Shape.EXCEPTION,
            body,
            number,
            ordinal,
            exception=found["name"],
            message=found["message"] or "",
        )
    return Line(Shape.OTHER, body, number, ordinal)


def surely_exception(line: Line) -> bool:
    """Return whether a line can only be an exception, also where no frame stands above it."""
    return _EXCEPTION.match(line.text) is not None or "." in (line.exception or "")


_LOG_LIKE = Pattern(
    r"^(?:\[?(?:[IWEDC] )?(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d)|\[?[IWEF]\d{4} |INFO|WARN|ERROR|DEBUG"
    r"|\[[\w./-]+:\d+\] (?:INFO|WARN|ERROR)|\[[IWEF] \w+\.cpp:\d+\] |wandb: "
    r"|frame #\d|Exception raised from|={5,}|-{5,}|\[rank|\S+:\d+:\d+ \[\d+\] NCCL"
    r"|(?:srun|slurmstepd(?:-[\w.-]+)?|mpirun): |terminate called"
    r"|Fatal Python error|Epoch\b|epoch\b|[Ss]tep\b"
    r"|Current thread 0x|Thread 0x)"
)


_LOGGED = Pattern(
    r"^(?:\d{4}-\d\d-\d\dT[\d:.,+-]+Z? )?"
    r"[^A-Za-z]{0,40}(?:(?:\[[\w.,: /-]{1,60}\] ?|[\w.]{1,60} - ){0,3}\[?"
    r"(?:(?:ERROR|CRITICAL|WARN(?:ING)?|EXCEPTION)\b"
    r"|(?:INFO|DEBUG)\b.{0,200}\b(?i:retry|failed|error|exception)\b.{0,80}:\s*$)"
    r"|[EWC] (?:\d{4}-|\d\d:\d\d)|[EW]\d{4} )"
)


def logs_error(text: str) -> bool:
    """Return whether a logger begins a line so that it calls an error, or announces one calmly.

    That is what it had caught.
    """
    return _LOGGED.match(text) is not None


_DELTA = Pattern(r"\[ *\+\d+\.\d{6}\] ")


def worked_since(text: str, since: int, times: int) -> int:
    """Return from which line on the form of a line tells of work, 0 where it does not.

    What dmesg wrote, with the time since the last line, is nobody's work.
    """
    return since if times >= thresholds.WORK_VALUES and not _DELTA.match(text) else 0


def looks_like_log(text: str) -> bool:
    """Return whether a line begins as the lines of loggers do: it is no part of a message."""
    return bool(_LOG_LIKE.match(text))
