"""Programs that an exception or a signal ended, and whether others worked on behind their end.

The outermost frame of such an exception's traceback is a module's.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from postmortem.facts.threads import is_own
from postmortem.knowledge.messages import briefs
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_words import ends, is_code, read_like, stopped, works, wrong
from postmortem.readers.ranklogs.lines import TRACEBACK, Shape, shape_of
from postmortem.readers.ranklogs.run_ends import (
    CLOCK,
    LAST_LINES,
    ended_right_above,
    same_bar,
    signs_of,
    text_of,
)

Signs = Callable[[], set[str]]
"""What tells that several processes of one run wrote into a file; looked for when it is asked."""

_LONGEST_FRAME = 1000
_LAUNCHER, _AGENT = "run-launcher-frame", "run-agent"
_RUNPY = ("_run_module_as_main", "_run_module_code", "_run_code")
"""What ``python -m`` stands for in a traceback."""
_MOST_OF_RUNPY = 7
_MOST_PROGRAMS = 2000
_FEWEST = 2
FEWEST_WORK = 5
"""Lines of work behind an exception: bars are drawn once more when their program ends."""
WRITERS = "run-of-ranks"
_HOLE, _SRUN = bytes(8), b"\nsrun: error: "
_ELSE = "julia-error"
"""How a program of another language ends, which a traceback above it is no part of."""
_STARTS, _OVER = Pattern(r"(?i)\b(?:start|begin)\w*"), Pattern(r"(?i)\b(?:finish|complet|done)\w*")
_OF_OTHER = "run-of-other"
_TRACKER = "run-tracker"
_UNCOMPILED = re.compile(
    rb'^(?:  File "[^"\n]+", line \d+\n(?: {4}.*\n){1,2}'
    rb"(?:SyntaxError|IndentationError|TabError): .*\n?)+",
    re.MULTILINE,
)
"""What Python writes of scripts that it cannot compile, one behind the other."""
_CHAIN = 200
"""Bytes above the second half of a chain of exceptions, among which its link stands."""
_CHAINED = (Shape.CAUSE, Shape.HEAD, Shape.GROUP)
_CLOCKS = Pattern(r"\d+:\d\d(?::\d\d)?(?:[.,]\d+)?")
NUMBER = Pattern(r"\d+(?:\.\d+)?")
_RANKED = b"\n[rank"
_OF_RANK = re.compile(
    rb'^\[rank(\d{1,6})\]: +File "([^"\n]+)", line \d+, in <module>', re.MULTILINE
)


def programs(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield the last tracebacks whose outermost frame is a module's, no launcher's, backwards.

    Each as where it stands, and the file of the module.
    """
    at = data.rfind(TRACEBACK)
    for _ in range(_MOST_PROGRAMS):
        if at < 0:
            return
        below = data.find(b"\n", at) + 1 or len(data)
        lines = text_of(data[below : below + _LONGEST_FRAME]).splitlines()[:_MOST_OF_RUNPY]
        frames = (frame for text in lines if (frame := shape_of(0, 0, text)).file is not None)
        first = next((frame for frame in frames if frame.function not in _RUNPY), None)
        of_module = first is not None and first.function == "<module>"
        if first is not None and of_module and _LAUNCHER not in signs_of([first.text])[0]:
            yield at, first.file or ""
        at = data.rfind(TRACEBACK, 0, at)


def behind_all_ranks(data: bytes) -> int:
    """Return the end of what the ranks raised, all of them, if their script raises behind it.

    A process ends once: who raises then was started anew. 0 where that is not so, also where one
    agent of torchrun tells of both: it starts the attempts of one run.
    """
    raised = _OF_RANK.findall(data) if _RANKED in data else []
    ranks = {int(rank) for rank, _ in raised}
    if len(ranks) < _FEWEST or max(ranks) + 1 != len(ranks):
        return 0
    end = data.find(b"\n", data.rfind(_RANKED) + 1) + 1
    scripts = {text_of(script) for _, script in raised}
    below = data[end:] if end else b""
    agents = agents_in(below)
    if len(agents) > 1 == len(set(agents)):
        return 0
    return end if any(script in scripts for _, script in programs(below)) else 0


def agents_in(data: bytes) -> list[bytes]:
    """Return the numbers of the agents of torchrun that tell what they do, as often as they do."""
    return re.findall((briefs()[_AGENT].pattern or "").encode(), data, re.MULTILINE)


def uncompiled(data: bytes, signs: Signs) -> int:
    """Return where scripts come, right behind a bad end, that Python cannot compile; else 0.

    They never began: what stands above is of another program.
    """
    since = max(0, len(data) - CLOCK)
    begins = [since + found.start() for found in _UNCOMPILED.finditer(data[since:])]
    if not begins or WRITERS in signs():
        return 0
    return next((at for at in reversed(begins) if ended_right_above(data, at)), 0)


def behind_program(data: bytes, signs: Signs) -> int:
    """Return the end of a program that an exception ended while another one worked on, or raised.

    Its outermost frame is a module's: nothing is left of it to catch the exception.
    """
    if TRACEBACK not in data:
        return 0
    raised = [*programs(data)]
    if not raised:
        return 0
    begin, script = raised[0]
    said, end = _end_of(data, begin)
    if re.search((briefs()[_ELSE].pattern or "").encode(), data[end:], re.MULTILINE):
        return end
    ranks = [*takewhile(lambda one: one[1] == script, raised)]
    others = [one[1] for one in raised[len(ranks) :]]
    if WRITERS in signs():  # ranks run one script, what a launcher raises is no script's
        own = script not in others and is_own(script) and any(map(is_own, others))
        if not own or _SRUN not in data:
            return 0
        begin = ranks[-1][0]
    elif _goes_on(data[end:], interrupted=stopped(read_like([said.rstrip()])[0])):
        return end
    if _OF_OTHER in signs_of([said])[0]:
        return 0
    if not others:  # ranks, or programs that wrote with holes between
        hole = data.rfind(_HOLE, raised[1][0], begin) if len(raised) > 1 else -1
        return hole + len(_HOLE) if hole >= 0 else 0
    place = data.rfind(b"\n", 0, begin) + 1
    return 0 if goes_with_above(data, place) else place


def goes_with_above(data: bytes, place: int) -> bool:
    """Return whether a traceback is the second half of a chain of exceptions."""
    above = text_of(data[max(0, place - _CHAIN) : place]).splitlines()
    return any(shape_of(0, 0, text).shape is Shape.CAUSE for text in above)


def behind_notice(data: bytes, notices: Iterable[int], since: int, signs: Signs) -> int:
    """Return the end of a shell's notice on a program, if another one worked on behind it; else 0.

    What a script says of itself is no work, nor is what goes on with that of a process beside it;
    `since` is where the last run begins, as far as is known.
    """
    at = max(notices, default=-1)
    end = data.find(b"\n", at) + 1 if at >= 0 else 0
    if not end or WRITERS in signs() or same_bar(data[:end], data[end:]):
        return 0
    began, begins = _first_numbers(data[max(0, end - CLOCK) : end]), _first_numbers(data[end:])
    if any(numbers > began[form] for form, numbers in begins.items() if form in began):
        return 0
    below = data[max(end, since, len(data) - CLOCK) :]
    return end if work_on(text_of(below).splitlines()) else 0


def _first_numbers(data: bytes) -> dict[str, list[int]]:
    """Return of each form of lines of work, but bars, the whole numbers that the first one has."""
    lines = [line for line in text_of(data[:CLOCK]).splitlines() if "%|" not in line]
    work = [line for line, ids in zip(lines, read_like(lines), strict=True) if works(ids)]
    texts = [_CLOCKS.sub("", line.strip()) for line in reversed(work)]
    return {NUMBER.sub("0", t): [int(n) for n in NUMBER.findall(t) if n.isdigit()] for t in texts}


def _end_of(data: bytes, at: int) -> tuple[str, int]:
    """Return the exception of a traceback, and where the lines of it end."""
    said = ""
    at = data.find(b"\n", at) + 1 or len(data)
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        line, at = text_of(data[at:end]), end
        if line[:1].isspace():
            continue
        said = line
        below = text_of(data[at : at + _LONGEST_FRAME]).lstrip("\r\n").partition("\n")[0]
        if not any(shape_of(0, 0, text).shape in _CHAINED for text in (line, below)):
            break
    return said, at


def _goes_on(data: bytes, *, interrupted: bool) -> bool:
    """Return whether lines behind an exception tell of another program's work, or its end.

    So does who starts programs in turn: what it started is finished, in the same words, twice.
    Who was `interrupted` may still say what libraries say on the way out.
    """
    lines = [*dict.fromkeys(filter(str.strip, text_of(data[-CLOCK:]).splitlines()))][-LAST_LINES:]
    lines = [line for line, ids in zip(lines, signs_of(lines), strict=True) if _TRACKER not in ids]
    ended = not interrupted and len(lines) > _FEWEST and any(map(ends, read_like(lines)))
    begun = {_STARTS.sub("", line) for line in lines if _STARTS.search(line)}
    over = (_OVER.sub("", line) for line in lines if _OVER.search(line))
    turns = Counter(NUMBER.sub("0", line) for line in over if line in begun)
    return ended or max(turns.values(), default=0) >= _FEWEST or work_on(lines)


def work_on(lines: Sequence[str]) -> bool:
    """Return whether so many lines tell of work that a program is at it.

    Words that are known say so, or the form, in any language: a line comes again and again in
    which two numbers differ, as a step and a loss do, not counting clocks. Forms alone do not do:
    a message may end with a list in which one number counts, and a bar changes its form.
    """
    found = read_like(lines)
    if sum(any(name.startswith("last-work") for name in ids) for ids in found) >= FEWEST_WORK:
        return True
    moved: dict[str, list[list[str]]] = {}
    for line, ids in zip(lines, found, strict=True):
        if not wrong(ids) and not is_code(line):
            text = _CLOCKS.sub("", line.strip())
            moved.setdefault(NUMBER.sub("0", text), []).append(NUMBER.findall(text))
    return any(
        sum(len(set(numbers)) >= FEWEST_WORK for numbers in zip(*rows, strict=True)) >= _FEWEST
        for rows in moved.values()
        if len(rows) >= FEWEST_WORK
    )
