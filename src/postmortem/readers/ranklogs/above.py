"""What stands above the word of who watched a program: a launcher, a runner, what started it."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath

from postmortem import _native, thresholds
from postmortem.facts.exits import RECORD, RUN, LogExit
from postmortem.facts.last_lines import LastLine, LastLines, Watched
from postmortem.facts.rank_logs import LogFailure, RankLogs, Remark
from postmortem.patterns import Pattern
from postmortem.readers.log_heads import plain_pieces
from postmortem.readers.ranklogs.broken_lines import whole_texts
from postmortem.readers.ranklogs.ci_steps import unstamped
from postmortem.readers.ranklogs.known_words import lost_a_peer, reason
from postmortem.readers.ranklogs.last_stack import framed
from postmortem.readers.ranklogs.last_words import (
    AT_END,
    COUNT,
    Ids,
    calm,
    carries_on,
    complete,
    has,
    is_habit,
    place_of,
    read_like,
    says_why,
    strong,
    survived,
    told_alone,
    watched,
    works,
    wrong,
)
from postmortem.readers.ranklogs.lines import Shape, looks_like_log, shape_of
from postmortem.readers.ranklogs.told_lines import ToldLines
from postmortem.readers.ranklogs.wrapped import written
from postmortem.readers.ranklogs.writers import Label
from postmortem.records import replace
from postmortem.text import without_numbers

_MOST_BYTES = 256 << 20
"""Of a log that is read again, up to the line."""
_BLOCK = 1 << 20
_MOST_READ = 48
"""Lines above the word: a launcher's own may be most of them."""
_MOST_LINES = 6
_OWN = "last-launcher"
_PLACED = Pattern(r"^(?:\[[\d:. -]+\] |[EF] |\S*[./]\S*:\d+[\]:] )+")
"""What C++ puts before a message: a time, a level, a place."""
_ABORT, _ABORTED = "MPI_Abort", "py-faulthandler-abort"
_CHECK, _CHECKED = "cuda-assert-line", "cuda-device-assert"
_OF_TRACEBACK = (Shape.HEAD, Shape.FRAME)
_FAULTS = ("SIGSEGV", "SIGBUS")
"""They leave no time for a word, but may follow from what a library had to do without."""
_WITH_WORDS = (None, "SIGABRT", *_FAULTS)
_TABLES = ("Slurm", "kubernetes", RUN, RECORD)
"""What was asked how a job had ended: no line of the job stands above it."""
_MOST_SEARCHED = 8000
"""Lines above a runner's word, where no line says that a step begins."""
_MANY_AGAIN = 5
_REACH = 40
"""Lines between the two, where the error is a mere word or a level: programs go on after such."""
_RIGHT_ABOVE, _FEWEST_WORDS = 2, 4
"""Lines between the two, where any word for what went wrong is enough."""
_GAP = 12
"""Lines between errors that go together."""
_RULE = Pattern(r"^[-=]{4,}$")
"""Above and below the name of a test, which says what failed and not why."""
_MOST_CITED = 3
_MOST_WORDS = 8
"""Words of watchers that are followed up."""
_OF_WATCHERS = ("last-more", _OWN, COUNT)
_NOT_WHY = ("code", "count", "nccl")
"""Forms of last words that only say that something failed, or how much: see `LastLines.form`."""
_BEGINS, _AFTER = "last-command", "last-after"
_CAUSE = "last-error-raised-cause"
_OF_TOOL = "last-error-word-build"
_TESTED = Pattern(r"^(?:=+ )?[1-9]\d* (?:failed|errors?)\b.* in [\d.]+s")
_SECTION = Pattern(r"^(?:-{3,} Captured \w+ \w+ -{3,}|([_=])\1{2,} \S.* \1{3,})$")
"""A headline of pytest's."""
_MOST_CAPTURED, _VERY_LAST = 400, 3
_PROMPT = Pattern(r"^(?:[\w.-]+@[\w.-]+:[^$#]{1,80}[$#]|\$) [\w./]")
"""Of a shell, with the command: GitLab's runner, which prints one before each, or a terminal."""
_ESCAPES = Pattern(r"\x1b\[[0-9;?]*[A-Za-z]")
_CARRIED = Pattern(r"^(?:#\d+ \d+\.\d+ |\[[^\]]+\] \{subprocess\.py:\d+\} INFO - | {6}(?=\S))")
"""What Docker, Airflow and pip write before the lines of a command."""
_NAME_ALONE = Pattern(r"^\([^()]{1,80} pid=\d+[^()]{0,80}\)\s*$")
"""What Ray writes before an empty line of a worker."""
_QUOTED = Pattern(r"^(?!\s+\w*Error: )(?:@@|[\s+<>|#\"\x27]|-(?!-- FAIL: )|\d+ *\|)")
"""A part of a diff, of source, of a stack; no error, as runners of tests put it below its test."""


def with_above(
    exits: tuple[LogExit, ...], failures: Sequence[LogFailure], named: Collection[int | None]
) -> tuple[LogExit, ...]:
    """Return ends, the first bad ones of each file with the lines right above them.

    Only where a launcher tells of who is not `named` before its lines, and no failure stands
    above: then an error in words that nobody knows may be its own. A fault leaves no time for one,
    and only a known cause is told; an abort mostly comes with a line that says why, right above, or
    above those who lost it.
    """
    first: dict[str, int] = {}
    for end in exits:
        nameless = end.rank is None or end.rank not in named
        left = end.code != 0 and end.signal in _WITH_WORDS and end.launcher not in _TABLES
        if left and nameless and not end.stopped:
            first[end.file] = min(end.line, first.get(end.file, end.line))
    since = dict(first)
    for failure in failures:
        if failure.begin_line < first.get(failure.file, 0):
            if lost_a_peer(failure):
                since[failure.file] = min(failure.begin_line, since[failure.file])
            else:
                del first[failure.file]
    bad = {end.file: end for end in exits if first.get(end.file) == end.line}
    rows = {file: _rows_above(end, since[file]) for file, end in bad.items()}
    return tuple(
        replace(end, above=rows[end.file]) if first.get(end.file) == end.line else end
        for end in exits
    )


def _rows_above(end: LogExit, since: int) -> tuple[LastLine, ...]:
    """Return the lines above an end that are not the launcher's, the telling ones first.

    Where they stand above those who lost it, errors alone.
    """
    lines = _lines_before(end.file, since, _MOST_READ)
    above = since - len(lines)
    rows = _nameless(lines)
    known = read_like(text for _, text in rows)
    found: dict[str, tuple[int, LastLine]] = {}
    below: list[str] = []
    passed = 0 if since < end.line else thresholds.WORK_OF_OTHERS
    for (number, text), ids in zip(reversed(rows), reversed(known), strict=True):
        if shape_of(number, number, text).shape in _OF_TRACEBACK:  # the launcher's own
            found = {said: one for said, one in found.items() if not said[:1].isspace()}
        elif carries_on(ids) or _OWN in ids or framed(text) or _NAME_ALONE.match(text):
            continue
        elif any(map(str.isalpha, text)):
            error = bool(wrong(ids))
            if not error and (since < end.line or looks_like_log(text) or works(ids) or calm(ids)):
                passed += 1
                if found or passed > thresholds.WORK_OF_OTHERS:
                    break
                continue
            whole = " ".join([text.strip(), *(below if error else ())])
            less = watched(ids) if error else 2
            found.setdefault(text, (less, LastLine(whole, end.file, above + number - 1)))
            below = [text.strip(), *below][:_MOST_LINES] if text[:1].isspace() else []
    rows_found = [*found.values()][:_MOST_LINES]
    if end.signal in _FAULTS:
        rows_found = [row for row in rows_found if reason(row[1].text)]
    # Of several errors the first, who watched last; else, and above an abort, the nearest line.
    first = end.signal is None
    rows_found.sort(
        key=lambda row: (first and row[0], row[1].line if first and row[0] < 2 else -row[1].line)
    )
    return tuple(one for _, one in rows_found)


def watched_programs(logs: RankLogs, begins: Mapping[str, int]) -> tuple[Watched, ...]:
    """Return the errors above what only says that a program failed: a code, an exception for it.

    `begins` has the first line of each file that was judged.
    """
    words = [
        one.errors[0] if one.errors else one.nearest
        for one in logs.last_lines
        if one.form in _NOT_WHY and logs.who(one.writer).rank is None
    ]
    nameless = [f for f in logs.failures if f.work is None and logs.who(f.writer).rank is None]
    known = read_like(f.said.words for f in nameless)
    wrapped = [
        LastLine(f.said.words, f.file, f.begin_line)
        for f, ids in zip(nameless, known, strict=True)
        if watched(ids)
    ]
    told: dict[str, list[tuple[int, int]]] = {}
    for failure in logs.failures:
        told.setdefault(failure.file, []).append((failure.begin_line, failure.line))
    found = (
        error_above(word, begins.get(word.file, 1), ToldLines(told.get(word.file, ())))
        for word in [*wrapped, *filter(None, words)][:_MOST_WORDS]
    )
    return tuple(one for one in found if one is not None)


def _with_check(failure: LogFailure, checks: Sequence[Remark]) -> LogFailure:
    above = [r for r in checks if r.file == failure.file and r.line < failure.begin_line]
    own = [r for r in above if r.writer == failure.writer] or above
    check = own[-1].match(_CHECK) if own else None
    if check is None:
        return failure
    said, *_ = failure.said.message.split("\n")  # the rest is the same for each
    why = f"{said}: `{check['check']}` ({PurePosixPath(check['file']).name}:{check['line']})"
    return replace(failure, said=replace(failure.said, message=why))


def with_reasons(logs: RankLogs, begins: Mapping[str, int]) -> tuple[LogFailure, ...]:
    """Return the failures, the first abort without a reason with what its program wrote above.

    Those of a check in a kernel with what was checked: the device prints that above, and mostly
    nothing says for which process.
    """
    checks = [one for one in logs.remarks if one.match(_CHECK) is not None]
    told = (_with_check(f, checks) if f.said.match(_CHECKED) else f for f in logs.failures)
    failures = tuple(told) if checks else logs.failures
    first = next(filter(_gives_no_reason, failures), None)
    if first is None or any(f.line < first.line for f in failures if f.file == first.file):
        return failures
    word = LastLine(first.said.words, first.file, first.begin_line)
    above = error_above(word, begins.get(first.file, 1), ToldLines(()))
    if above is not None:
        why = _PLACED.sub("", above.said[0].text.strip())
        why += f" ({first.said.message})" if first.said.message else ""
    elif said := _said_above(word):
        why = f"{first.said.message}; just above: {said}".lstrip("; ")
    else:
        return failures
    with_why = replace(first, said=replace(first.said, message=why))
    return tuple(with_why if f is first else f for f in failures)


def _gives_no_reason(failure: LogFailure) -> bool:
    """Return whether an end says that it is one and nothing else: abort() of MPI or of C."""
    said = failure.said
    bare = (failure.kind == "terminate" and not said.message) or said.match(_ABORTED) is not None
    return said.exception == _ABORT or bare


def _said_above(word: LastLine) -> str:
    """Return the sentence right above a word, in whatever words, if it tells of no work."""
    above = map(_plain, _lines_before(word.file, word.line, _MOST_LINES))
    texts = [text for text in above if text]
    for text, ids in zip(reversed(texts), reversed(read_like(texts)), strict=True):
        if not (carries_on(ids) or _OWN in ids):
            bad = has(ids, AT_END)  # "diverged at step 7"
            none = calm(ids) or (survived(ids) and not bad)
            return "" if none or len(text.split()) < _FEWEST_WORDS else text.strip()
    return ""


def error_above(word: LastLine, since: int, told: ToldLines) -> Watched | None:
    """Return the program's own error above the word of who watched it, if one stands in reach.

    Lines before `since` are of another run. What is `told` as a failure decides by itself. The
    search ends where the runner began the command, and where a line tells of work.
    """
    lines = _lines_before(word.file, word.line, min(_MOST_SEARCHED, word.line - since))
    texts = [_plain(line) for line in lines]
    known = read_like(texts)
    first = word.line - len(lines)
    over = next((i for i, ids in enumerate(known) if _AFTER in ids), len(lines))
    found: list[int] = []
    between = gap = 0
    for at in range(over - 1, -1, -1):
        ids = known[at]
        announced = at and texts[at - 1].endswith(":") and wrong(known[at - 1])
        on = survived(ids) and not (says_why(ids) or announced)  # of tests some passed
        if _BEGINS in ids or on or gap > _GAP or _PROMPT.match(texts[at]):
            break
        if not texts[at] or watched(ids) or not set(_OF_WATCHERS).isdisjoint(ids):
            continue
        near = between <= _REACH and complete(wrong(ids))
        near = near or (between < _RIGHT_ABOVE and told_alone(ids, AT_END))
        own = near or says_why(ids) or _OF_TOOL in ids
        around = (texts[at - 1], texts[at + 1]) if 0 < at < len(texts) - 1 else ("",)
        headline = all(map(_RULE.search, around))
        quoted = headline or _QUOTED.search(texts[at])
        if own and not quoted and first + at not in told:
            found.append(at)
            gap = 0
        elif found:
            gap += not (texts[at][:1].isspace() or carries_on(ids))  # of something above
        else:
            between += 1
    if not found:
        return None
    found = _innermost(found, texts, known)
    found.sort(key=lambda at: (place_of(known[at]), at))
    said = tuple(
        LastLine(_whole(texts, known, at), word.file, first + at) for at in found[:_MOST_CITED]
    )
    return Watched(
        word,
        said,
        near=between <= _REACH,
        plain=bool(strong(known[found[0]])),
        known=reason(said[0].text),
    )


def _innermost(found: Sequence[int], texts: Sequence[str], known: Sequence[Ids]) -> list[int]:
    """Return the lines, of a chain of causes the last: nothing but frames stands between."""
    ends: list[int] = []
    for at in sorted(found):
        chain = bool(ends) and _CAUSE in known[at] and _CAUSE in known[ends[-1]]
        if chain and all(text[:1].isspace() for text in filter(None, texts[ends[-1] + 1 : at])):
            ends.pop()
        ends.append(at)
    return ends


def _plain(line: bytes) -> str:
    # Of UTF-16, as PowerShell writes it, what is ASCII is left.
    said = line.replace(b"\0", b"").decode("utf-8", "replace").rstrip("\r")
    text = unstamped(_ESCAPES.sub("", said))
    return _CARRIED.sub("", text).rstrip()


def _whole(texts: list[str], known: Sequence[Ids], at: int) -> str:
    """Return a line, with those below it where its message only begins there."""
    text, *more = texts[at : at + 1 + _MOST_LINES]
    below = [one.strip() for one in more if one[:1].isspace()]
    if text.endswith(":") and more:
        return " ".join([text, *(below or more[:1])])
    rows = [(0, one, 0, 0) for one in (text, *more)]
    return next(whole_texts(rows, known[at:], console=False))


def _lines_before(path: str, line: int, most: int) -> list[bytes]:
    """Return lines above one, without their ends; none where it stands too far below."""
    wanted, above, kept, read = line - 1, 0, b"", 0
    try:
        with contextlib.closing(plain_pieces(path)) as pieces:
            for block in written(pieces):
                above += block.count(b"\n")
                kept = kept[-_BLOCK:] + block
                read += len(block)
                if above >= wanted or read >= _MOST_BYTES:
                    break
    except OSError:
        return []
    lines = kept.split(b"\n")
    lines = lines[: len(lines) - 1 - (above - wanted)]
    return lines[-most:] if above >= wanted and most > 0 else []


def without_captured(failures: Sequence[LogFailure], labels: Sequence[Label]) -> list[LogFailure]:
    """Return the failures without those that a program under test of pytest wrote.

    pytest shows that below the test that failed, and ends with how many there were.
    """
    tails = ((one.file.path, one.raw["tail"][-_VERY_LAST:]) for one in labels)
    tested = {path for path, rows in tails if any(_TESTED.match(row[1]) for row in rows)}
    return [f for f in failures if f.file not in tested or not _is_captured(f)]


def _is_captured(failure: LogFailure) -> bool:
    above = map(unstamped, texts_before(failure.file, failure.begin_line, _MOST_CAPTURED))
    sections = [text for text in above if _SECTION.match(text)]
    return bool(sections) and " Captured " in sections[-1]


def texts_before(path: str, line: int, most: int) -> list[str]:
    """Return the text of lines above one, whoever wrote them."""
    return [text.decode("utf-8", "replace") for text in _lines_before(path, line, most)]


def without_habit(found: LastLines) -> LastLines:
    """Return last lines, a word for what went wrong not counted that a program lives with.

    It came again and again, far above too, and what stands behind had been printed before: all of
    it, or a good part.
    """
    one, last = found.nearest, found.last
    if one is None or one == last or not found.nearest_counts or found.nearest_by != "alone":
        return found
    rows = texts_before(last.file, last.line + 1, _MOST_SEARCHED)
    forms = [without_numbers(unstamped(row)) for row in rows]
    at = len(forms) - 1 - (last.line - one.line)
    lives_on = at >= 0 and forms[:at].count(forms[at]) >= _MANY_AGAIN and is_habit(forms, at)
    above, behind = {*forms[:at]}, {*filter(None, forms[at + 1 :])}
    lives_on = lives_on and (behind <= above or len(behind & above) >= _MANY_AGAIN)
    return replace(found, nearest_counts=False) if lives_on else found


def _nameless(lines: list[bytes]) -> list[tuple[int, str]]:
    """Return the last of the lines that no prefix gives to anybody, with their numbers."""
    pieces = iter((b"\n".join(lines),))
    tail = _native.read_ranklog(lambda: next(pieces, b""), [])["labels"][0]["tail"]
    return [(number, text) for number, text, *_ in tail]
