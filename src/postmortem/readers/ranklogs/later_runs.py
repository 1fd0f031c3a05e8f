"""Where the last run of a file begins that several runs, or several programs, were written to.

A run begins as the file does (lines of its head come again, behind the end of the run before, and
later by the clock), where somebody says that one does, or behind a program that an exception has
ended while another one worked on. Ranks that write into one file side by side are one run.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain, dropwhile, islice

from postmortem.knowledge.messages import briefs
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_words import (
    AT_END,
    IN_FEW,
    calm,
    ends,
    has,
    has_level,
    read_like,
    stopped,
    strong,
    told_alone,
    works,
    wrong,
)
from postmortem.readers.ranklogs.line_places import (
    MOST,
    alike,
    places_of,
    places_of_known,
    whole_lines,
)
from postmortem.readers.ranklogs.lines import TRACEBACK, Shape, shape_of
from postmortem.readers.ranklogs.programs import (
    FEWEST_WORK,
    NUMBER,
    WRITERS,
    Signs,
    agents_in,
    behind_all_ranks,
    behind_notice,
    behind_program,
    goes_with_above,
    uncompiled,
    work_on,
)
from postmortem.readers.ranklogs.run_ends import (
    CLOCK,
    LAST_LINES,
    NEAR,
    NOTICES,
    Errors,
    ended_above,
    ended_right_above,
    error_above,
    later,
    lines_above,
    same_bar,
    signs_of,
    text_of,
    with_top,
    without_last_error,
)
from postmortem.readers.signatures import Signatures
from postmortem.records import record

MOST_BYTES = 64 << 20
_MASKED_BYTES = 8 << 20
"""Of logs that are searched once more for heads that differ in their numbers."""
_HEAD_LINES = 64
_SHORTEST = 20
_SHORTEST_FIRST = 8
_LONGEST_HEAD = 1000
_MOST_HEADS = 16
_MOST_MASKED = 32
"""The same without its numbers: a step is like any other."""
_MOST_EARLIER = 100
_FEWEST = 2
_SAMPLE = 4 << 20
_LONGEST = 200
"""Bytes of a line that are looked at."""
_TEED = re.compile(rb"^\[(?!rank\d)[A-Za-z]\w{0,31}?\d+\]:", re.MULTILINE)
"""How torchrun's --tee begins the lines of its processes."""
_QUOTED = re.compile(rb"^At .+:\d+ char:\d+\r?\n\Z", re.MULTILINE)
"""What PowerShell writes above the command whose first error it has wrapped."""
_WORD = Pattern(r"[^\W\d_]{3}")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_NO_HEAD = re.compile(rb"(?:\d[\dTZ:.,+-]* )?\s|[-=]+$")
"""An indented line, or a rule."""
_OF_PROCESS = re.compile(rb"\[rank|\bpid=\d")
"""In lines of one process, each line of PyTorch's last exception among them: none of a head."""
_NEXT, _RESTARTS = "run-next", "run-restarts"
_STEPS = "run-of-ci"
_PEERS = "run-with-peers"
_RANK_OF = "run-rank-of"
_CLOSED = "torchelastic-sigterm-send"
_OVER = "run-launcher-over"
_SUMMARIES, _RULE = ("torchelastic-rootcause", "run-epilogue"), b"=" * 20
"""What torchrun's summary of a failed job ends with, or a batch system's of any."""
_REPORTED = "run-reported"


_TYPED = re.compile(
    rb"^(?:\^C)*(?P<typed>(?:\([\w.-]+\) )?[\w.-]+@[\w.-]+:[^$#\n]{1,80}[$#]|\$) [\w./]",
    re.MULTILINE,
)
"""A prompt of a shell, and a command."""
_STOPS = (b"^C", b"KeyboardInterrupt")
_SRUN, _STEP = b"\nsrun: error: ", re.compile(rb"\bStepId=(\d+)")
_OUTPUT = b"\nThe output (if any) follows:"
"""Of LSF, behind its word on how a job ended: what that job wrote, before it did."""


@record
class LaterRun:
    """The last run of a file, and how those before it ended."""

    begin: int
    """The byte at which it begins."""
    another: bool = False
    """What stands before it is of another program, which may have run beside it."""
    worked: bool = False
    """It works behind a shell's notice that the other program is gone, or went on where the run
    before it failed."""
    caught: bool = False
    """The same program wrote what stands before it, and caught the error there."""
    earlier: tuple[tuple[str, int] | None, ...] = ()
    """Of each run before it, the newest first, what it said last and the number of that line;
    None where that does not read like an error."""


def last_run(data: bytes) -> LaterRun | None:
    """Return the last run; None where there is one run, as far as is told."""
    signs = cache(lambda: _writers_in(data))
    begin, another, worked = _last_begin(data, signs)
    if not begin:
        return None
    if another and same_bar(data[: without_last_error(data, begin)], data[begin:]):
        return LaterRun(begin, caught=True, earlier=(error_above(data, begin, 0),))
    earlier: list[tuple[str, int] | None] = []
    end, left = begin, MOST_BYTES
    while end and left > 0 and len(earlier) < _MOST_EARLIER:
        left -= end
        since = _last_begin(data[:end], signs)[0]
        since = since or _last_begin(data[: without_last_error(data, end)], signs)[0]
        earlier.append(error_above(data, end, since))
        worked = worked or (end == begin and _went_further(data[since:end], data[end:]))
        end = since
    return LaterRun(begin, another, worked, earlier=tuple(earlier))


def _went_further(before: bytes, behind: bytes) -> bool:
    """Return whether a run says what another one did up to its error, and goes on without one."""
    was, now = (
        [line for line in part[:NEAR].translate(_DIGITS).splitlines() if line.strip()]
        for part in (before, behind)
    )
    same = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), len(was))
    ids = read_like(map(text_of, (*was[same : same + 1], *now[same:])))
    fails = [bool(wrong(one)) for one in ids]
    goes_on = min(same, len(now) - same) >= _FEWEST
    return goes_on and fails[:1] == [True] and not any(fails[1:])


def _last_begin(data: bytes, signs: Signs) -> tuple[int, bool, bool]:
    """Return where the last run begins, 0 where there is one; and whether it is another program.

    Also whether that one is at work, behind a shell's notice.
    """
    known, heads = Signatures.load("run begin"), _heads(data)
    ids = [item.id for item in known.signatures]
    told = _told()
    places = places_of_known(data, told, whole_lines(heads))
    begins = dict(zip(ids, places, strict=False))
    failed, over, reports, closed, ranks, *notices = places[len(ids) : len(told)]
    if begins[_RESTARTS] or begins[_STEPS]:  # told apart elsewhere, or one run
        return 0, False, False
    again = _head_again(data, places[len(told) :], wrong, MOST)
    if not again and len(data) <= _MASKED_BYTES and TRACEBACK in data and not _is_teed(data):
        masked = data.translate(_DIGITS)
        heads_alike = places_of(masked, whole_lines(_heads(masked, begins=True)))
        if heads_alike and len(heads_alike[0]) > 1:  # else what comes again are steps, or errors
            again = _head_again(data, heads_alike, strong, _MOST_MASKED)
    begin = max(again, _announced(data, begins), _behind_summary(data, failed, over))
    begin = max(begin, _behind_closing(data, closed), behind_all_ranks(data))
    begin = max(begin, _behind_interrupted(data))
    if len(reports) > 1:  # each is of what stands above it
        begin = max(begin, data.find(b"\n", reports[-2]) + 1)
    begin = max(begin, _first_line_again(data, signs), _rank_again(data, ranks))
    behind = max(behind_program(data, signs), uncompiled(data, signs))
    ended = behind_notice(data, chain(*notices), max(begin, behind), signs)
    last = max(begin, behind, ended)
    return last, last > begin, ended > 0


@cache
def _told() -> tuple[str, ...]:
    """Return the patterns of all that says that a run begins, or that it is over."""
    known = Signatures.load("run begin").signatures
    more = (briefs()[name] for name in (*_SUMMARIES, _REPORTED, _CLOSED, _RANK_OF, *NOTICES))
    return tuple(item.pattern or "" for item in (*known, *more))


def _heads(data: bytes, *, begins: bool = False) -> list[bytes]:
    """Return lines of the head that say the same in each run, but for numbers.

    Where a few lines stand above the first traceback, it and what follows it are of the end, and
    what stands below a logger's error goes on with that. No step `begins` a run: without their
    numbers they are alike in one.
    """
    lines = data[:NEAR].replace(b"\r\n", b"\n").split(b"\n")[:_HEAD_LINES]
    raised = next((i for i, line in enumerate(lines) if TRACEBACK in line), 0)
    lines = lines[:raised] if raised >= FEWEST_WORK else lines
    fit = [
        line
        for line in dict.fromkeys(lines)
        if len(line) >= _SHORTEST and not _NO_HEAD.match(line) and not _OF_PROCESS.search(line)
    ]
    rows: list[tuple[bytes, bool]] = []
    below = False
    for line, ids in zip(fit, read_like(map(text_of, fit)), strict=True):
        below = has_level(ids) or (below and not calm(ids))
        if not (below or wrong(ids) or stopped(ids)):
            rows.append((line, works(ids)))
    heads = dropwhile(lambda row: begins and row[1], rows)
    return [line for line, _ in islice(heads, _MOST_HEADS)]


def _head_again(data: bytes, heads: list[list[int]], errors: Errors, most: int) -> int:
    """Return where the head of the file comes again behind an end; 0 where it does not.

    `heads` are the places of each line of it, from its first on.
    """
    again = [places for places in heads if 1 < len(places) <= most]
    if len(again) < _FEWEST:
        return 0
    first = min(again)
    for place in reversed(first[1:]):
        if goes_with_above(data, place):
            continue
        if _of_another_rank(data, first, place):
            continue
        near = sum(any(place <= p < place + NEAR for p in places) for places in again)
        if near * 2 > len(again) and near >= _FEWEST and ended_above(data, place, errors):
            begin = with_top(data, place, data.count(b"\n", 0, first[0]))
            interrupted = any(map(stopped, read_like(lines_above(data, begin))))
            if later(data, begin, unknown=interrupted):
                return begin
    return 0


def _of_another_rank(data: bytes, places: Sequence[int], place: int) -> bool:
    """Return whether a line names a rank that none above it, which says the same, does."""
    lines = [text_of(data[at : at + _LONGEST].partition(b"\n")[0]) for at in places if at <= place]
    told = [
        next((match["rank"] for match in row if match.id == _RANK_OF), None)
        for row in Signatures.load("run sign").matches(lines)
    ]
    return told[-1] is not None and told[-1] not in told[:-1]


def _first_line_again(data: bytes, signs: Signs) -> int:
    """Return where the first line of the file comes again right below a bad end, 0 without one.

    Its numbers may differ, and no clock is needed: ranks that write side by side begin before the
    first of them ends.
    """
    first = data[:NEAR].lstrip().partition(b"\n")[0].rstrip()
    if not _SHORTEST_FIRST <= len(first) <= _LONGEST_HEAD or len(data) > _MASKED_BYTES:
        return 0
    text = text_of(first)
    ids = read_like([text])[0]
    is_plain = shape_of(0, 0, text).shape is Shape.OTHER and _WORD.search(text)
    fails = has(ids, AT_END)  # a try of several, at any level
    if wrong(ids) or works(ids) or fails or not is_plain:
        return 0
    places = [*islice(alike(data, first), 1, MOST)]
    below = [place for place in places if ended_right_above(data, place)]
    again = text_of(data[below[0] : below[0] + len(first)]) if below else ""
    if not below or strong(read_like([again])[0]) or 2 * len(below) < len(places):
        return 0
    side_by_side = not signs().isdisjoint((WRITERS, _PEERS))
    if side_by_side and not _launcher_over(data, below[-1]):
        return 0
    return below[-1] if later(data, below[-1], unknown=True) else 0


def _launcher_over(data: bytes, place: int) -> bool:
    """Return whether the launcher said right above that it ends, and says no more of that step."""
    if _OVER not in signs_of(lines_above(data, place))[-1]:
        return False
    above, behind = (set(_STEP.findall(part)) for part in (data[:place], data[place:]))
    return above.isdisjoint(behind) and (bool(behind) or _SRUN not in data[place:])


def _rank_again(data: bytes, places: Sequence[int]) -> int:
    """Return where the first of the ranks says anew, behind an end, which of them it is; else 0.

    A form in which a rank says so again and again is none of its start; an agent of torchrun that
    tells of both starts one run anew.
    """
    if len(places) > MOST:
        return 0
    begins = [data.rfind(b"\n", 0, place) + 1 for place in places]
    lines = [text_of(data[at : data.find(b"\n", at) + 1 or len(data)]) for at in begins]
    known = Signatures.load("run sign").matches(lines)
    seen: dict[str, set[str]] = {}
    found: dict[str, int] = {}
    for at, line, row in zip(begins, lines, known, strict=True):
        told = next((match for match in row if match.id == _RANK_OF), None)
        if told is None or works(read_like([line])[0]):
            continue
        form = NUMBER.sub("0", line.strip())
        ranks = seen.setdefault(form, set())
        if told["rank"] in ranks:
            ranks.clear()
            over = ended_above(data, at, strong) and later(data, at, unknown=True)
            over = over and set(agents_in(data[:at])).isdisjoint(agents_in(data[at:]))
            found[form] = at if over and found.get(form, 0) >= 0 else -1
        ranks.add(told["rank"])
    return max(found.values(), default=0)


def _announced(data: bytes, begins: Mapping[str, Sequence[int]]) -> int:
    """Return where the last run begins that somebody says begins; 0 where nobody does."""
    rows = ((begin, name) for name, places in begins.items() for begin in places[:MOST])
    for begin, name in sorted(rows, reverse=True):
        place = data.rfind(b"\n", 0, begin) + 1
        if _QUOTED.search(data, max(0, place - NEAR), place):
            continue
        since = data.rfind(_OUTPUT, 0, place) + 1
        above, end = data[since:], place - since
        over = name == _NEXT or ended_right_above(above, end)
        if place and (over or ended_above(above, end, strong)):
            return place
    return 0


def _behind_interrupted(data: bytes) -> int:
    """Return where a person typed a command that failed, right behind one that he interrupted."""
    stops = any(word in data for word in _STOPS)
    typed = _TYPED.finditer(data, max(0, len(data) - CLOCK)) if stops else ()
    for found in reversed([*typed]):
        place: int = found.start("typed")
        interrupted = any(map(stopped, read_like(lines_above(data, found.start()))))
        ids = read_like(text_of(data[place : place + NEAR]).splitlines()[1:])
        failed = any(wrong(row) or told_alone(row, IN_FEW) for row in ids)
        if failed and (interrupted or place > found.start()):
            return place
    return 0


def _behind_summary(data: bytes, failed: Sequence[int], over: Sequence[int]) -> int:
    """Return where work goes on behind torchrun's last word on a job: it was started again.

    Behind the epilogue of a job anything does, up to that of the next one.
    """
    for at in sorted((*failed, *over), reverse=True):
        rule = data.find(_RULE, at)
        end = data.find(b"\n", rule) + 1 if rule >= 0 else 0
        lines = text_of(data[end : end + NEAR]).splitlines()[:LAST_LINES] if end else []
        if work_on(lines) or (end and at in over[:-1]):
            return end
    return 0


def _behind_closing(data: bytes, closed: Sequence[int]) -> int:
    """Return where work goes on to an end behind torchrun's word that it ends its processes.

    Work alone may be of one that was not gone yet, or what was written late. What the launcher
    raises for the signal that it got is its last word.
    """
    at = data.find(b"\n", closed[-1]) + 1 if 0 < len(closed) <= MOST else 0
    lines = text_of(data[at:]).split("\n") if at and len(data) - at <= CLOCK else []
    known = read_like(lines)
    over = max((place for place, ids in enumerate(known, 1) if stopped(ids)), default=0)
    at += len("\n".join([*lines[:over], ""]))
    known = [ids for ids, line in zip(known[over:], lines[over:], strict=True) if line.strip()]
    whole = known and not any(map(strong, known)) and ends(known[-1])
    return at if whole and any(map(works, known)) else 0


def _writers_in(data: bytes) -> set[str]:
    """Return the signs that several processes of one run wrote into a file."""
    if _is_teed(data):
        return {WRITERS}
    both = data[:_SAMPLE] + data[-_SAMPLE:]
    return {hit.id for hit in Signatures.load("run sign").find(both, each=1)}


def _is_teed(data: bytes) -> bool:
    return _TEED.search(data, 0, NEAR) is not None
