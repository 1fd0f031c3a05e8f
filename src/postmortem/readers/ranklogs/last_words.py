"""What the messages of a line at the end of a log say together: an error, work, an end."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from postmortem.facts.signature import Match
from postmortem.patterns import Pattern
from postmortem.readers.signatures import Signatures
from postmortem.text import without_numbers

Ids: TypeAlias = tuple[str, ...]
"""The messages of one line."""
_once = lru_cache(maxsize=4096)
"""Lines are many, what they say together is not."""

_WEAK = ("last-error-level", "last-error-status", "last-error-word")
"""How ids begin of what a program may survive: a level, a status, a word."""
WORD = "last-error-word"
_LEVEL, _FIELD = "last-error-level", "last-error-level-key"
_NO_NUMBERS = (_FIELD, "last-error-refused", "last-error-level-mark")
_FATAL, _STATUS = "last-error-fatal", "last-error-status"
_STALLED, _STALLED_TWICE = "last-alone-stalled", 2
_CODE = "last-error-code"
"""How ids begin of what tells a code and not why."""
_MINDED = ("last-error-signal-named", "last-error-closed")
"""What is none as a warning: a program may end another one, or outlive its peers."""
_WATCHED: tuple[str, ...] = (_CODE, "last-error-watch-")
"""How ids begin of what somebody says who watched a program: that it failed, and not why."""
_BUILD = "last-error-watch-build"
"""What a tool says of a part of its work: it may go on with others."""
_CARRIED = "last-error-quoted"
_CUT, _BARE = "last-error-cut", "last-error-word-bare"
_THREAD = "last-thread"
_ABOVE = "last-error-watch-above"
_OF_COMMAND = (_CODE, _BUILD, _ABOVE)
"""Those that are no reason in an exception either."""
_OF_NCCL = "last-error-code-nccl"
_FAILED = ("last-error-failed", "last-error-state", "last-error-mark", "last-error-test")
"""What says that something failed: beside a code, no more than the code."""
_RAISED = "last-error-raised"
_USAGE = "last-error-usage"
_TESTS = ("last-error-test", "last-error-pytest")
COUNT = "last-error-test-count"
TESTED = ("last-calm-end-all-tests", "last-calm-tests")
"""What a runner of tests says at last, if all went well."""
WELL = (*TESTED, "last-work-installed")
"""The same, of any tool."""
_NONE, _GOES_ON, _PASSED = "last-none", "last-none-minded", "last-none-passed"
_SOURCE = "last-foreign-source"
_IN_C = Pattern(
    r"^\s*#(?:define|include|pragma|ifn?def|endif|undef)\b|^\s*(?:template ?<|extern \"C\")"
    r"|^\s*[{}]+;?\s*$|^\s+\S.*;(?:\s*//.*)?$|^[\w:<>*& ]+\(.*\) ?\{$"
    r"|^\S+\.\w+:\d+:\d+:$|^l\.\d+ "  # its place, as gfortran and TeX write it
)
_MOST_WORDS, _LONG = 40, 8
_COUNT = Pattern(r"\d{1,18}")
_AGAIN, _ALONE = 3, 2
"""How often a line comes that is a habit, and how many lines one message may have at most."""
_QUOTES = frozenset("[({'\"")
IN_FEW = ("last-alone", "last-few")
"""What counts in a text of a few lines."""
AT_END = ("last-alone",)
"""What counts in the line that ends a log."""
_LAUNCHER, _MORE = "last-launcher", "last-more"
_CALM, _NUMBER = "last-calm", "last-calm-number"
_END = "last-end"
_DONE, _ONE_WORD = "last-done", "last-calm-end"
_START, FALLBACK, MEANT = "last-start", "last-start-fallback", "last-start-meant"
AGAIN = "last-again"
TEXT, _ROLE = "last-text", "last-text-role"
_CLOSING = "last-closing"
_CLOSED = "last-closing-done"
CLOSING = 2
"""So many lines in a row tell that a program has begun to put its things away."""
_FRAMES, _CELL = ("last-frame", "last-foreign-stack"), "last-frame-cell"
_SHOWN = ("last-error-cut", "last-shown")
"""Heads of stacks that another reader knows, or that a program shows without an error."""
STOP = "last-stop"
WARNED = "last-few-warned"  # of a library that has no higher level
_OF_CALL, CANCELLED, _STOPPED = "last-stop-operation", "last-cancelled", "last-stop-killed"
_PRINTED = ("last-loss", "last-norm")
MOVES = ("last-work", *_PRINTED)
_ENDED = "last-alone-ended"
_WORK = (*MOVES, _END)


def read_like(texts: Iterable[str]) -> list[Ids]:
    """Return what lines read like."""
    return ids_of(Signatures.load("last line").matches(texts))


def ids_of(rows: Iterable[Iterable[Match]]) -> list[Ids]:
    return [tuple(match.id for match in row) for row in rows]


@_once
def wrong(ids: Ids) -> Ids:
    """Return what errors a line reads like; words alone make none of a line that says INFO.

    Nor does anything in a text of a language model that a logger wrote so.
    """
    text = _ROLE in ids or (TEXT in ids and _CALM in ids)
    if (MEANT in ids and not has(ids, _TESTS)) or text:
        return ()
    spared = calm(ids) or carries_on(ids) or FALLBACK in ids or _STOPPED in ids
    none = (*_WEAK, *_MINDED) if spared else ()
    none = (*none, _RAISED, _CODE) if calm(ids) and _PASSED in ids else none
    return tuple(n for n in ids if n.startswith("last-error-") and not n.startswith(none))


@_once
def carries_on(ids: Ids) -> bool:
    """Return whether a line continues an error above it, or is written after any end."""
    return has(ids, _MORE)


def has(ids: Ids, begin: str | tuple[str, ...]) -> bool:
    """Return whether a line has an id that begins so."""
    return any(name.startswith(begin) for name in ids)


def complete(errors: Ids) -> bool:
    """Return whether one of some errors is more than the head of a traceback that is cut."""
    return any(name != _CUT for name in errors)


def strong(ids: Ids) -> Ids:
    """Return what errors a line reads like of the kinds that end something."""
    weak = (*_WEAK, _BUILD, _CARRIED, *([_CODE] if calm(ids) else []))
    return tuple(name for name in wrong(ids) if not name.startswith(weak))


def sure(ids: Ids) -> bool:
    """Return whether a line has the form of an error that ends something, not only a level."""
    return any(not name.startswith(_FATAL) for name in strong(ids))


def carried_past(ids: Ids) -> bool:
    """Return whether a line that names an error says how its program goes on."""
    return _GOES_ON in ids


def passed_over(text: str) -> bool:
    """Return whether a line that is no error by its level says that its program goes on."""
    ids = read_like([text])[0]
    return calm(ids) and _PASSED in ids


@_once
def place_of(ids: Ids) -> int:
    """Return how much a line tells beside others, the most first: who watched says little."""
    order = _order()
    says_little = watched(ids) or _BARE in ids or set(wrong(ids)) == {_CUT}
    return min(order[name] for name in telling(ids) or ids) + says_little * len(order)


@lru_cache(maxsize=1)
def _order() -> dict[str, int]:
    return {item.id: at for at, item in enumerate(Signatures.load("last line").signatures)}


def telling(ids: Ids) -> Ids:
    """Return by which of its errors a line is ranked: who watched says less than anybody else."""
    errors = wrong(ids) or tuple(n for n in ids if n == WARNED)
    return says_why(ids) or tuple(n for n in errors if n.startswith(_WATCHED)) or errors


def says_why(ids: Ids) -> Ids:
    """Return what errors a line reads like that end something, and tell more than that it did."""
    errors = wrong(ids)
    no_reason = _WATCHED
    if has(errors, _WATCHED):
        no_reason = (*_WATCHED, *_FAILED, *([_RAISED] if has(errors, _OF_COMMAND) else []))
    return tuple(name for name in strong(ids) if not name.startswith(no_reason))


@_once
def watched(ids: Ids) -> bool:
    """Return whether a line is the word of who watched a program: its code, or that it failed."""
    return not says_why(ids) and has(wrong(ids), _WATCHED)


def heads(numbers: Sequence[int], ids: Sequence[Ids]) -> bool:
    """Return whether a text begins with the word of who watched, and a line left free below it.

    What it watched stands below such a heading, and came before it.
    """
    alone = len(numbers) > 1 and numbers[1] > numbers[0] + 1
    return alone and not has(ids[0], _NONE) and has_level(ids[0]) and watched(ids[0])


@_once
def told_alone(ids: Ids, words: tuple[str, ...]) -> bool:
    """Return whether a line has one of some `words` for what went wrong, and does not deny it."""
    moves = _PRINTED if _ENDED in ids else MOVES  # "aborted at step 300"
    denied = calm(ids) or has(ids, (*moves, _NONE, _SOURCE, _MORE, _THREAD, _START, _ROLE))
    return not denied and has(ids, words)


@_once
def form_of(ids: Ids) -> str:
    """Return what an error is, where the advice on it depends on that: see `LastLines.form`."""
    known = telling(ids)
    if _USAGE in known:
        return "usage"
    if watched(ids):
        return "nccl" if _OF_NCCL in known else "code"
    if has(known, _TESTS):
        return "count" if COUNT in known else "summary"
    return "launcher" if _LAUNCHER in ids else ""


def has_level(ids: Ids) -> bool:
    """Return whether a logger calls a line an error."""
    return has(wrong(ids), _LEVEL)


@_once
def calm(ids: Ids) -> bool:
    """Return whether a line's level says that it is no error."""
    no_number = has(ids, _NO_NUMBERS)  # what stands behind those is no quantity
    return any(name.startswith(_CALM) and not (no_number and name == _NUMBER) for name in ids)


@_once
def closes(ids: Ids) -> bool:
    """Return whether a line only says that a program puts its things away: no work, no success."""
    return has(ids, _CLOSING) and not has(ids, (*_WORK, _DONE, _START))


def cut_in_thread(above: Ids, ids: Ids) -> bool:
    """Return whether a line is the head of a traceback of a thread, or the line above it."""
    return _THREAD in ids or (_THREAD in above and set(wrong(ids)) == {_CUT})


@_once
def is_frame(ids: Ids) -> bool:
    """Return whether a line is a frame of a stack, of any language."""
    return has(ids, _FRAMES)


def says_more(ids: Ids, below: Ids, *, row: bool) -> bool:
    """Return whether an error says more than the one below it, which may stand in a row with it.

    Of one form the first does: the others may come of it.
    """
    more = place_of(ids) < place_of(below) or wrong(ids) == wrong(below)
    return watched(below) > watched(ids) or (row and more)


def warns(ids: Ids) -> bool:
    """Return whether a line is none by its level, and has no other."""
    return calm(ids) and not has(ids, _LEVEL)


def told_by(said: str, ids: Ids) -> str:
    """Return what makes a line read like an error: see `LastLines.nearest_by`."""
    begins = said.lstrip().startswith(('File "', "│", "/"))
    if _CELL in ids or (begins and has(ids, (*_FRAMES, _CUT))):
        return "frame"
    if strong(ids):
        return "form"
    return "alone" if not wrong(ids) else "heading" if said.rstrip().endswith(":") else "word"


def is_cut_head(ids: Ids) -> bool:
    """Return whether a line is the head of a traceback."""
    return _CUT in ids


def shown_only(ids: Ids) -> bool:
    """Return whether a line begins a stack that is no error, or one whose end is known."""
    return has(ids, _SHOWN)


def below_calm(texts: Sequence[str], ids: Sequence[Ids], at: int) -> bool:
    """Return whether a line goes on with one that says it is no error: a warning's own source."""
    while at > 0 and texts[at][:1].isspace():
        at -= 1
        if calm(ids[at]):
            return True
    return False


def stands_still(texts: Sequence[str], at: int) -> bool:
    """Return whether a line is a bar at the state that it had: a program draws it once more."""
    state, bar, _ = texts[at].partition("[")
    if not bar or "|" not in state:
        return False
    return any(text.startswith(state) for text in texts[:at])


def is_habit(texts: Sequence[str], at: int) -> bool:
    """Return whether a line comes again and again, but for its numbers: its program survives it.

    It need not where hardly another line has come since its first time, unless a number rises.
    """
    shapes = [*map(without_numbers, texts)]
    since = shapes.index(shapes[at])
    same = [text for text, shape in zip(texts, shapes, strict=True) if shape == shapes[at]]
    numbers = [[*map(int, _COUNT.findall(text))] for text in same]
    rises = any(all(a < b for a, b in pairwise(column)) for column in zip(*numbers, strict=False))
    alone = since > 0 and not rises and len({*shapes[since:]}) <= _ALONE
    return len(same) >= _AGAIN and not alone


def is_stuck(texts: Sequence[str], ids: Sequence[Ids]) -> bool:
    """Return whether nothing but one status that is not OK stands at the end, at any level.

    Or who watches the job says, twice and more, for how long nothing has moved.
    """
    stalled = [_STALLED in row for row in ids[-_STALLED_TWICE:]]
    if all(stalled) and len(stalled) == _STALLED_TWICE:
        return len({without_numbers(text) for text in texts[-_STALLED_TWICE:]}) == 1
    last = {without_numbers(text) for text in texts[-_AGAIN:]}
    return len(last) == 1 and len(texts) > _AGAIN and all(_STATUS in row for row in ids[-_AGAIN:])


def is_text(line: str) -> bool:
    """Return whether a line is a long text in quotes or brackets: data, not a message."""
    return line.lstrip()[:1] in _QUOTES and len(line.split()) > _MOST_WORDS


def is_code(line: str) -> bool:
    """Return whether a line is one of a program in C, as messages quote it, or the place of one."""
    return _IN_C.search(line) is not None


@_once
def works(ids: Ids) -> bool:
    """Return whether a line tells of work, or of a good end."""
    return has(ids, _WORK)


@_once
def survived(ids: Ids) -> bool:
    """Return whether a line says that its program went on, at its work or with its start."""
    return has(ids, (*_WORK, _START))


@_once
def got_over(ids: Ids) -> bool:
    """Return whether a line says that what stands above was meant, or gone round."""
    return FALLBACK in ids or MEANT in ids


@_once
def done(ids: Ids, *, last: bool) -> bool:
    """Return whether a line says that it came to its end, or that a run is done.

    One word for that counts in the `last` lines only: steps are done too.
    """
    over = has(ids, (_END, _DONE, _CLOSED)) or (last and has(ids, _ONE_WORD))
    return over and not _ended_badly(ids)


def _ended_badly(ids: Ids) -> bool:
    """Return whether a line has a word for a bad end, and does not deny it."""
    return has(ids, AT_END) and not has(ids, (_NONE, _NUMBER))


@_once
def ends(ids: Ids) -> bool:
    """Return whether a line says that a program came to its end, or ended with 0."""
    return has(ids, (_END, _CLOSED)) and not _ended_badly(ids)


def stopped(ids: Ids) -> bool:
    """Return whether a line says that somebody tells a program to end."""
    by_level = (_OF_CALL, _STOPPED)
    return any(name.startswith(STOP) and not (name in by_level and calm(ids)) for name in ids)


def calm_behind(
    before: Sequence[str], behind: Sequence[str], said: str, *, logged: bool, warned: bool = False
) -> int | None:
    """Return which line behind a traceback is calm, where a logger's error stands before it.

    Or a warning that names an error, where that was `warned` of within a program. What is said
    while it closes does not count: the error may be why. Where it was at that before the error,
    this may be an effect. Who prints what an exception `said` and its traceback below, `logged` or
    not, may raise it once more: work alone tells that he did not.
    """
    ids = read_like([*before, *behind])
    above, below = ids[: len(before)], ids[len(before) :]
    quoted = above and len(said) >= _LONG and before[-1].rstrip().endswith(said)
    level = above[-1] if above else ()
    levelled = (logged and has_level(level)) or (warned and warns(level) and has(level, AT_END))
    closing = closing_above(above, len(above) - 1)
    for at, row in enumerate(below):
        if quoted and survived(row):
            return at
        if levelled and calm(row) and (closing or not closes(row)):
            return at
    return None


def closing_above(ids: Sequence[Ids], at: int) -> bool:
    """Return whether a program was putting its things away before it wrote a line."""
    above = ids[max(0, at - CLOSING) : at]
    return len(above) == CLOSING and all(closes(row) and not wrong(row) for row in above)


def began_to_close(ids: Sequence[Ids]) -> bool:
    """Return whether a program was putting its things away before its last error."""
    at = next((i for i in range(len(ids) - 1, -1, -1) if wrong(ids[i])), 0)
    while at and wrong(ids[at - 1]):
        at -= 1
    return closing_above(ids, at)
