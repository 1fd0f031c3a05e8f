"""Whether a program went on behind an error: what a server answers, what it says below."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from postmortem import thresholds
from postmortem.facts.last_lines import LastLine
from postmortem.facts.rank_logs import LogFailure
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.broken_lines import Row
from postmortem.readers.ranklogs.last_words import (
    AGAIN,
    AT_END,
    MEANT,
    TESTED,
    TEXT,
    WORD,
    Ids,
    calm,
    closes,
    done,
    has,
    has_level,
    ids_of,
    is_cut_head,
    is_frame,
    is_habit,
    read_like,
    shown_only,
    strong,
    survived,
    told_alone,
    works,
    wrong,
)
from postmortem.readers.ranklogs.lines import logs_error, looks_like_log, shape_of
from postmortem.readers.signatures import Signatures
from postmortem.text import without_numbers

_ANSWER, _LEVEL, _ALL = "last-answer", "last-calm", "last-calm-end-all"
_REQUEST, _CLOSED = "run_asgi", "last-closing-done"
"""Where uvicorn catches what a request raised, by which it does not end; and how it ends well."""
_CLIENTS, _SERVERS, _WELL = "4", "5", "2"
"""How codes begin by which a server says that the request was wrong, the server, or nothing."""
_FEWEST_AGAIN, _FEWEST, _MANY_AGAIN = 3, 2, 8
_OF_MANY = frozenset(
    (
        "run-of-ranks",
        "run-with-peers",
        "run-rank-of",
        "run-rank-pid",
        "run-agent",
        "run-launcher-over",
    )
)
_WARNS = Pattern(r"(?i)\bwarn|^\W*W[ \d]")
_NAMED = "run-named"
_FULL = "100%|"
"""A bar that came to its end."""
_COUNT = Pattern(r"(?<![\d.:])\d{1,18}(?![\d.:])")
"""No part of a time or of a fraction."""
_NEAR = 3
"""Lines above and below a traceback among which the bad answer stands."""
_FENCE = "```"
_HEAD = Pattern(r"^.*?\b(?:INFO|DEBUG)\b\W+(?:[\w.-]+:)?")
"""What a logger writes before each of its records."""
_SHORT = len("End.")  # of a line that says nothing by itself, as unittest's "OK" below its count


def went_on_behind(tail: Sequence[Row], failure: LogFailure) -> LastLine | None:
    """Return the line behind an error by which its program went on, where work above tells none.

    Of a traceback that begins above the log no work can stand above: any good word counts. Who
    catches what it printed may say at last that all is done: Rust reports a panic when it begins,
    Python what ends a thread alone, and a runner of tests that counts what was well did not die of
    what its tests started.
    """
    below = [row for row in tail if row[0] > failure.line and failure.kind != "exception"]
    near = 0
    for row, ids in zip(below, read_like(row[1] for row in below), strict=True):
        near += row[0] == failure.line + 1 or not (is_frame(ids) or shown_only(ids))
        if MEANT in ids and near <= _NEAR:
            return LastLine(row[1], failure.file, row[0])
    if (over := _next_over(tail, failure)) is not None:
        return over
    if failure.logged and [frame.function for frame in failure.frames[:1]] == [_REQUEST]:
        behind = [row for row in tail if row[0] > failure.line]
        for row, ids in zip(behind, read_like(row[1] for row in behind), strict=True):
            if has(ids, _CLOSED):
                return LastLine(row[1], failure.file, row[0])
    panic = failure.match("rust-panic") is not None or failure.kind == "thread"
    raised = failure.kind == "exception"
    caught = raised and bool(failure.caught_in)
    counted = not raised and any("test" in row[1] or "passed" in row[1] for row in tail[-_FEWEST:])
    if panic or caught or counted:
        at_last = tail[len(before_done(tail)) :]
        well = (_ALL, *TESTED) if caught else TESTED
        if panic or any(has(ids, well) for ids in read_like(row[1] for row in at_last)):
            return _calm_behind(at_last, failure)
    if failure.torn:
        return _calm_behind(tail, failure)
    return _answered_behind(tail, failure) or _served_behind(tail, failure)


def _next_over(tail: Sequence[Row], failure: LogFailure) -> LastLine | None:
    """Return the line by which a later run came to its end, behind one named right above an error.

    Who starts them one after the other went on with the next.
    """
    above = [row for row in tail if row[0] == failure.begin_line - 1]
    if not any(of for _, of in _named_runs(above)):
        return None
    behind = [row for row in tail if row[0] > failure.line]
    over = next((row for row, of in reversed(_named_runs(behind)) if not of), None)
    return LastLine(over[1], failure.file, over[0]) if over is not None else None


def _named_runs(rows: Sequence[Row]) -> list[tuple[Row, bool]]:
    """Return the lines that name a run, or tell that one came to its end, and whether they name."""
    found = Signatures.load("run sign").matches(row[1] for row in rows)
    return [
        (row, bool(match.captures))
        for row, known in zip(rows, found, strict=True)
        for match in known
        if match.id == _NAMED
    ]


def within_text(tail: Sequence[Row], failure: LogFailure) -> LastLine | None:
    """Return the line behind an error that stands in a text of a language model, above and below.

    Right above its traceback and right below it, or within a record that a logger wrote.
    """
    rows = {row[0]: row for row in tail}
    around = [rows.get(at) for at in (failure.begin_line - 1, failure.line + 1)]
    ids = read_like(row[1] for row in around if row is not None)
    if len(ids) < len(around) or not all(has(names, TEXT) for names in ids):
        return _within_record(tail, failure)
    number, text, since, _ = around[-1] or tail[-1]
    return LastLine(text, failure.file, number, since)


def _within_record(tail: Sequence[Row], failure: LogFailure) -> LastLine | None:
    """Return the next record of a logger behind one that holds a text, or a fence, and the error.

    What was raised has lines of that record below it: nobody goes on with one once he has ended.
    """
    above = [row for row in tail if row[0] < failure.begin_line]
    behind = [row for row in tail if row[0] > failure.line]
    heads = [at for at, row in enumerate(above) if looks_like_log(row[1])]
    rest = next((at for at, row in enumerate(behind) if looks_like_log(row[1])), 0)
    if not heads or not rest:
        return None
    record, below = above[heads[-1] :], behind[:rest]
    ids = read_like(row[1] for row in (*record, behind[rest]))
    fences = [sum(row[1].lstrip().startswith(_FENCE) for row in rows) for rows in (record, below)]
    fenced = all(count % 2 for count in fences)
    head = _HEAD.match(without_numbers(behind[rest][1]))
    same = head is not None and without_numbers(record[0][1]).startswith(head[0])
    text = any(has(names, TEXT) for names in ids[:-1])
    if not (fenced or text) or not (same and calm(ids[0]) and _is_good(ids[-1])):
        return None
    number, line, since, _ = behind[rest]
    return LastLine(line, failure.file, number, since)


def tried_again(tail: Sequence[Row], failure: LogFailure) -> LastLine | None:
    """Return the last line of work behind an error, if a program said at once that it tries again.

    An error below that says otherwise.
    """
    rows = [row for row in tail if row[0] > failure.line]
    near = [row for row in rows[:_NEAR] if row[0] - failure.line <= _NEAR]
    at = next((i for i, ids in enumerate(read_like(row[1] for row in near)) if AGAIN in ids), None)
    if at is None:
        return None
    ids = read_like(row[1] for row in rows)
    if any(strong(names) for names in ids[at + 1 :]):
        return None
    work = [row for row, names in zip(rows[at + 1 :], ids[at + 1 :], strict=True) if works(names)]
    return LastLine(work[-1][1], failure.file, work[-1][0], work[-1][2]) if work else None


def works_on(tail: Sequence[Row], failure: LogFailure) -> LastLine | None:
    """Return the last line of work behind an error that may have been caught, or was logged.

    Known work of one form in which something rises, or what says so by its level; no error that
    ends something and nobody's giving up stands behind. Of what another error ends at last, in its
    main module, any work between the two.
    """
    if not (failure.caught_in or failure.logged) or failure.uncaught or _of_many(tail):
        return None
    rows = [row for row in tail if row[0] > failure.line]
    ids = read_like(row[1] for row in rows)
    heads = zip(ids, rows[1:], strict=False)
    dies = next((at for at, (names, row) in enumerate(heads) if is_cut_head(names) and
                 shape_of(0, 0, row[1]).function == "<module>"), 0)  # fmt: skip
    if dies:  # by another error
        work = [row for row, names in zip(rows[:dies], ids, strict=False) if works(names)]
        return LastLine(work[-1][1], failure.file, work[-1][0], work[-1][2]) if work else None
    if any(strong(names) or told_alone(names, AT_END) for names in ids):
        return None
    work = [
        row
        for row, names in zip(rows, ids, strict=True)
        if works(names) or (_is_good(names) and not closes(names) and not _WARNS.search(row[1]))
    ]
    full = any(_FULL in row[1] for row in work)
    last = rising(work, _FEWEST if full else _FEWEST_AGAIN - failure.logged)
    return LastLine(last[1], failure.file, last[0], last[2]) if last is not None else None


def rising(rows: Sequence[Row], fewest: int) -> Row | None:
    """Return the last row of forms that come twice and more, a number rising; of few rows none."""
    forms: dict[str, list[Row]] = {}
    for row in rows:
        forms.setdefault(without_numbers(row[1].strip()), []).append(row)
    on = [some for some in forms.values() if len(some) >= _FEWEST and _rises(some)]
    return max((some[-1] for some in on), default=None) if sum(map(len, on)) >= fewest else None


def _of_many(tail: Sequence[Row]) -> bool:
    """Return whether lines tell of several processes of one run, each of which may be at work."""
    found = Signatures.load("run sign").matches(row[1] for row in tail)
    return any(match.id in _OF_MANY for row in found for match in row)


def _rises(rows: Sequence[Row]) -> bool:
    """Return whether a number is larger in each line than in the one above it."""
    counts = [[*map(int, _COUNT.findall(row[1]))] for row in rows]
    columns = zip(*counts, strict=False)
    return any(all(a < b for a, b in pairwise(column)) for column in columns)


def began_anew(tail: Sequence[Row], failure: LogFailure) -> bool:
    """Return whether what was printed above an error stands once more behind it, and more.

    Its program caught it and began again: each line above comes behind it too, once, in the same
    order, and the last lines behind go further.
    """
    above = [row[1] for row in tail if row[0] < failure.begin_line and row[1].strip()]
    behind = [row[1] for row in tail if row[0] > failure.line]
    again = [text for text in behind if text in above]
    once = len(above) == len(set(above)) >= _FEWEST_AGAIN
    return once and again == above and behind[-1] != above[-1]


def resumed(texts: Sequence[str], ids: Sequence[Ids], at: int, *, mere: bool) -> bool:
    """Return whether many lines behind an error have forms that stood above it.

    Behind a mere word a few of one form are enough, if that has numbers, and any where it is a
    habit; behind what is no error by its level two forms of calm lines, or one where it is a habit.
    """
    forms = [*map(without_numbers, texts)]
    above, behind = Counter(forms[:at]), Counter(forms[at + 1 :])
    if mere:
        few = any("#" in one and min(above[one], behind[one]) >= _FEWEST for one in behind)
        word = all(name.startswith(WORD) for name in wrong(ids[at]))
        few = few or (word and is_habit(texts, at))
    else:
        rows = zip(forms[at + 1 :], ids[at + 1 :], strict=True)
        quiet = {form for form, names in rows if calm(names)} if calm(ids[at]) else set()
        few = len(quiet & {*above}) >= _FEWEST or (bool(quiet) and is_habit(texts, at))
    return few or sum(count for form, count in behind.items() if form in above) > _MANY_AGAIN


def calm_again(texts: Sequence[str], ids: Sequence[Ids], at: int) -> bool:
    """Return whether a calm line behind an error says what one above it said, not in closing."""
    above = {*map(without_numbers, texts[:at])}
    rows = zip(texts[at + 1 :], ids[at + 1 :], strict=True)
    return any(
        _is_good(names) and not closes(names) and without_numbers(text) in above
        for text, names in rows
    )


def logged_on(above: Sequence[str], behind: Sequence[str]) -> int | None:
    """Return which line is the last calm one behind an error that a logger wrote with its stack.

    None where none of them stood above too, but for its numbers: who gives up cleans up first. One
    alone may be another's.
    """
    ids = read_like([*above, *behind])
    rows = enumerate(ids[len(above) :])
    calm_ones = [at for at, names in rows if _is_good(names) and not closes(names)]
    if not above or not has_level(ids[len(above) - 1]) or len(calm_ones) < _FEWEST:
        return None
    return calm_ones[-1] if calm_again([*above, *behind], ids, len(above) - 1) else None


def before_done(tail: Sequence[Row]) -> Sequence[Row]:
    """Return the last lines without those at the very end that say that all is done."""
    ids = read_like(row[1] for row in tail)
    end = len(tail)
    while end and (done(ids[end - 1], last=True) or len(tail[end - 1][1].strip("- ")) < _SHORT):
        end -= 1
    return tail[:end]


def says_done(tail: Sequence[Row]) -> bool:
    """Return whether the very last line says, at a level that is calm, that all is done."""
    known = read_like(row[1] for row in tail[-1:])
    return any(_LEVEL in ids and done(ids, last=True) for ids in known)


def _calm_behind(tail: Sequence[Row], failure: LogFailure) -> LastLine | None:
    rows = [row for row in tail if row[0] > failure.line]
    for row, ids in zip(rows, read_like(row[1] for row in rows), strict=True):
        if not closes(ids) and (_is_good(ids) or survived(ids) or done(ids, last=True)):
            return LastLine(row[1], failure.file, row[0], row[2])
    return None


def _is_good(ids: Ids) -> bool:
    return calm(ids) and not wrong(ids) and not has(ids, AT_END)


def _answered_behind(tail: Sequence[Row], failure: LogFailure) -> LastLine | None:
    """Return the line behind an error that answers well what failed to be answered by it.

    So does one right behind it that refuses the request as wrong. Where the server calls it its
    own fault, answers that were under way may come behind the end: there must be a good many.
    """
    above = [row for row in tail if row[0] < failure.begin_line][-_NEAR:]
    rows = [*above, *(row for row in tail if row[0] > failure.line)]
    if failure.uncaught or len(rows) == len(above):
        return None
    known = Signatures.load("last line").matches(row[1] for row in rows)
    answers = [
        (row, match) for row, ids in zip(rows, known, strict=True) for match in ids
        if match.id == _ANSWER
    ]  # fmt: skip
    behind = [one for one in answers if one[0][0] > failure.line]
    near = {row[0] for row in rows[: len(above) + _NEAR]}
    bad = [
        one
        for one in (*behind, *reversed(answers))
        if one[0][0] in near and one[1]["code"][0] in "45"
    ]
    if not bad:
        return None
    (number, text, since, _), failed = bad[0]
    if failed["code"][0] == _CLIENTS and number > failure.line:  # the request is over, well or not
        return LastLine(text, failure.file, number, since)
    later = [
        row for row, match in behind if row[0] > number and match["request"] == failed["request"]
    ]
    good = [row for row, match in behind if row in later and match["code"][0] == _WELL]
    fewest = 1 if failed["code"][0] == _CLIENTS else thresholds.WORK_OF_OTHERS
    if len(good) < fewest or good[-1] != later[-1]:
        return None
    line, text, since, _ = good[-1]
    return LastLine(text, failure.file, line, since)


def _served_behind(tail: Sequence[Row], failure: LogFailure) -> LastLine | None:
    """Return the last calm line of a server behind an error that it logged, if it served on.

    It took work well behind it, and is said to be at fault by no answer and no error. A server
    whose engine is gone answers those who only ask how it is.
    """
    begins = next((row[1] for row in tail if row[0] == failure.begin_line), "")
    rows = [row for row in tail if row[0] > failure.line]
    if failure.uncaught or not (failure.logged or logs_error(begins)):
        return None
    known = Signatures.load("last line").matches(row[1] for row in rows)
    answers = [match for ids in known for match in ids if match.id == _ANSWER]
    took = any(one["code"][0] == _WELL and not one["request"].startswith("GET") for one in answers)
    ids = ids_of(known)
    if not took or any(one["code"][0] == _SERVERS for one in answers) or any(map(strong, ids)):
        return None
    calm_ones = [
        row for row, names in zip(rows, ids, strict=True) if _is_good(names) and not closes(names)
    ]
    if len(calm_ones) < _FEWEST_AGAIN:
        return None
    number, text, since, _ = calm_ones[-1]
    return LastLine(text, failure.file, number, since)
