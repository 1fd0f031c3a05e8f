"""The last lines of each process: errors without a form of their own, ends, bad numbers.

What separates a last error from one that its program survived: nothing follows but what goes on
with the error.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter

from postmortem.facts.last_lines import LastLine, LastLines
from postmortem.facts.signature import Match
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.answers import calm_again, resumed
from postmortem.readers.ranklogs.bad_numbers import NOT_FINITE, NUMBERS, last_bad, printed
from postmortem.readers.ranklogs.broken_lines import Rows, minded, whole_texts
from postmortem.readers.ranklogs.ci_steps import unstamped
from postmortem.readers.ranklogs.cut_summaries import with_whole_messages
from postmortem.readers.ranklogs.effects import (
    KEYS,
    WORKER,
    in_column,
    lost_again,
    told_to_end,
    without_ended,
    without_output,
    without_recorders,
    without_repeated,
)
from postmortem.readers.ranklogs.framed_messages import RULE, head_in_frame
from postmortem.readers.ranklogs.known_words import about_peer, reason
from postmortem.readers.ranklogs.last_stack import cut_at_level, dumped, framed, stack_at_end
from postmortem.readers.ranklogs.last_words import (
    AGAIN,
    AT_END,
    IN_FEW,
    STOP,
    WARNED,
    WELL,
    Ids,
    began_to_close,
    below_calm,
    calm,
    carried_past,
    carries_on,
    closes,
    complete,
    cut_in_thread,
    done,
    ends,
    form_of,
    got_over,
    has,
    has_level,
    heads,
    ids_of,
    is_code,
    is_frame,
    is_habit,
    is_stuck,
    is_text,
    place_of,
    says_more,
    says_why,
    stands_still,
    strong,
    sure,
    survived,
    told_alone,
    told_by,
    warns,
    watched,
    works,
    wrong,
)
from postmortem.readers.ranklogs.lines import worked_since
from postmortem.readers.ranklogs.other_texts import kind_of, of_other_objects, stopped_in
from postmortem.readers.signatures import Signatures
from postmortem.records import replace
from postmortem.text import without_numbers

_PROMPT = Pattern(r"^(?:\([\w.-]+\) )?[^\s=]*[@:~][^=]*[$#%>❯]\s*(?:exit|logout)?\s*$")
_SAYS = Pattern(r"[^\W_]")
_TELLING = ("last-error-", "last-foreign-", "last-frame", "last-alone", "last-few", WORKER, STOP)
_EPILOGUE, _COMMAND = "last-epilogue", "last-command"
_TCL = "last-error-watch-tcl"
"""Above a command that it quotes."""
_FEWEST, _FEWEST_WORK, _MOST_CITED, _MOST_BROKEN, _NEAR_END = 2, 3, 5, 2, 8
_FEW_LINES, _SHORT = 3, 25
"""Of a text that is no log: what somebody pasted, because of an error in it. In a few lines a word
for what could not be had is one, in a short text a level; what tells of work there comes again."""
_FEW_BEHIND, _FEWEST_WORDS = 2, 4
"""Lines behind a mere word that may be the end, and words of a line that may say why."""
_ERRNO = "last-alone-errno"  # "giving up" tells less than that
_TELLS_ENDS = ".ipynb"  # whose cells that failed have an output of their own: a word is none
_AT_ONCE = 1024  # writers whose lines are read together: a call for each would take longer
_MOST_BEHIND = 6
"""Lines of new forms behind a word for what went wrong, which need not be of its end."""


def last_lines(
    tails: Iterable[tuple[Rows, int, str]], *, numbers: bool
) -> Iterator[LastLines | None]:
    """Yield, for the last rows of each writer in a file, how they read; None without any.

    `numbers`: with those that are printed, which nobody asks for where all are finite.
    """
    todo = iter(tails)
    while some := [*islice(todo, _AT_ONCE)]:
        bare = [
            [(row[0], t, *row[2:]) for row in minded(rows) if _SAYS.search(t := unstamped(row[1]))]
            for rows, _, _ in some
        ]
        found = iter(
            Signatures.load("last line").matches(text for rows in bare for _, text, *_ in rows)
        )
        for rows, (all_rows, writer, file) in zip(bare, some, strict=True):
            known = [*islice(found, len(rows))]
            over = next((i for i, ids in enumerate(ids_of(known)) if _EPILOGUE in ids), len(rows))
            rows, known = (rows[:over], known[:over]) if over else (rows, known)
            yield _read(rows, known, writer, file, all_rows, numbers=numbers) if rows else None


def _read(
    rows: Rows,
    found: list[tuple[Match, ...]],
    writer: int,
    file: str,
    all_rows: Rows,
    *,
    numbers: bool,
) -> LastLines:
    names = ids_of(found)
    calls = KEYS.search(rows[-1][1]) or any(
        framed(row[1]) or is_code(row[1]) for row in rows[-_FEWEST:]
    )
    if not calls and not any(map(_tells, found)):
        number, text, since, times = rows[-1]
        bare = [LastLine(text, file, number) for number, text, *_ in rows if numbers]
        end, over = _ended(rows, names), _done(names)
        return LastLines(
            writer,
            LastLine(text, file, number, worked_since(text, since, times)),
            ended=None if end is None else LastLine(rows[end][1], file, rows[end][0]),
            done=None if over is None else LastLine(rows[over][1], file, rows[over][0]),
            closing=closes(names[-1]) and not any(map(works, names)),
            worked=_worked(rows, names),
            printed=printed(bare, found) if numbers else (),
        )
    whole = all_rows[0][0] <= _FEWEST
    lines = [
        LastLine(text, file, number, worked_since(text, since, times))
        for text, (number, _, since, times) in zip(whole_texts(rows, names), rows, strict=True)
    ]
    texts = [text for _, text, *_ in rows]
    lines, names = without_output(lines, texts, names)
    ids = without_recorders(without_ended(lost_again(without_repeated(texts, names))))
    kind = kind_of(lines, ids)
    if kind == "events":
        others = of_other_objects(texts)
        ids = [() if other else names for names, other in zip(ids, others, strict=True)]
    errors, plain = _errors(lines, ids) if kind != "strace" else ((), False)
    short = whole and len(lines) <= _SHORT
    nearest, counts = (
        (None, False) if errors or kind == "strace" else _nearest(lines, texts, ids, short)
    )
    at_end = not errors and _ERRNO in ids[-1] and told_alone(ids[-1], AT_END)
    if at_end and nearest is not None and not strong(ids[lines.index(nearest)]):
        nearest, counts = lines[-1], True  # which says more than a word above
    end, over = (None, None) if errors or counts else (_ended(rows, ids), _done(ids))
    if not errors and not counts and end is None:
        alone = _told_alone(lines, texts, ids, whole) if nearest is None else None
        stack = stack_at_end(lines, ids, lambda at: _goes_on(lines[at].text, ids[at]))
        counts = bool(alone or stack) and not file.endswith(_TELLS_ENDS)
        nearest = alone or stack or nearest
    told = errors[0] if errors else nearest
    if errors and not any(complete(ids[lines.index(line)]) for line in errors):
        nearest = _above_cut(lines, ids)
    about = ids[lines.index(told)] if told is not None else ()
    shown = with_whole_messages(errors, lines) if form_of(about) == "summary" else errors
    rules = [row[0] for row in all_rows if RULE.match(row[1])]
    if rules and shown:
        shown = (head_in_frame(shown[0], lines, ids, rules), *shown[1:])
    elif rules and nearest is not None:
        nearest = head_in_frame(nearest, lines, ids, rules)
    said = shown[0].text if shown else told.text if told is not None else ""
    known_root = reason(said)
    once = end is not None or over is not None or (whole and len(lines) <= _FEW_LINES)
    bad = last_bad(lines, found, fewest=1 if once else _FEWEST)
    return LastLines(
        writer=writer,
        last=lines[-1],
        errors=shown,
        plain=plain,
        form=form_of(about),
        above=_above(lines, ids, errors),
        first=whole and bool(errors) and min(errors, key=attrgetter("line")) == lines[0],
        known=known_root,
        about_peer=not known_root and about_peer(said, about),
        nearest=nearest,
        nearest_counts=counts,
        nearest_by="frame"
        if errors and not plain and cut_at_level(texts)
        else told_by(said, about),
        ended=None if end is None else lines[end],
        done=None if over is None else lines[over],
        closing=closes(ids[-1]) and not any(map(works, ids)),
        stopped=told_to_end(lines, texts, ids) if kind is None else None,
        not_a_number=bad[0],
        quantity=bad[1],
        value=bad[2],
        earlier=bad[3] and not whole,
        printed=printed(lines, found) if numbers else (),
        worked=_worked(rows, ids),
        kind=kind,
        stopped_in=stopped_in(lines, ids) if kind == "stack" else None,
    )


def _tells(row: tuple[Match, ...]) -> bool:
    """Return whether messages say more than that their program works, goes on or has ended."""
    return any(
        match["value"].lower() in NOT_FINITE
        if match.id in NUMBERS
        else match.id.startswith(_TELLING)
        for match in row
    )


def _worked(rows: Rows, ids: list[Ids]) -> int:
    return max((row[0] for row, names in zip(rows, ids, strict=True) if works(names)), default=0)


def _errors(lines: list[LastLine], ids: list[Ids]) -> tuple[tuple[LastLine, ...], bool]:
    """Return the errors behind which nothing else stands, the telling one first."""
    block: list[tuple[tuple[bool, bool, int, bool], LastLine, bool]] = []
    broken = 0
    above = [(), *ids[:-1]]
    for line, names, before in zip(reversed(lines), reversed(ids), reversed(above), strict=True):
        if (block and _COMMAND in names) or cut_in_thread(before, names):  # of others, above
            break
        known = WARNED in names or (told_alone(names, AT_END) and reason(line.text))
        if (wrong(names) and not carries_on(names)) or (block and known):
            mere = warns(names) and not says_why(names)
            less = line.text.rstrip().endswith(":") or mere  # it announces
            mute = not has(names, IN_FEW)
            rank = (less, not reason(line.text), place_of(names), mute)
            block.append((rank, line, sure(names)))
        elif _broken(line.text, names) and broken < _MOST_BROKEN:
            broken += 1
        elif not _goes_on(line.text, names) and _TCL not in before:
            break
    block.sort(key=lambda row: (row[0], row[1].line))
    return tuple(line for _, line, _ in block[:_MOST_CITED]), any(one for _, _, one in block)


def _above_cut(lines: list[LastLine], ids: list[Ids]) -> LastLine | None:
    """Return the error above the head of a traceback that is cut, if no work stands between."""
    for line, names in zip(reversed(lines), reversed(ids), strict=True):
        if complete(strong(names)):
            return line
        if survived(names) or line.since:
            return None
    return None


def _above(lines: list[LastLine], ids: list[Ids], errors: tuple[LastLine, ...]) -> LastLine | None:
    """Return the line above all errors, with what goes on with it, if it may say why."""
    if not errors:
        return None
    last = at = lines.index(min(errors, key=attrgetter("line"))) - 1
    while at >= 0 and _goes_on(lines[at].text, ids[at]):
        at -= 1
    if at < 0 or survived(ids[at]) or calm(ids[at]) or lines[at].since:
        return None
    # A tool's advice stands below its error.
    near = range(at, max(at - _FEW_BEHIND, 0) - 1, -1)
    at = next((one for one in near if told_alone(ids[one], AT_END)), at)
    if len(lines[at].text.split()) < _FEWEST_WORDS:
        return None
    below = (one.text for one in lines[at + 1 : last + 1] if one.text[:1].isspace())
    return replace(lines[at], text=" ".join([lines[at].text, *below]))


def _broken(text: str, names: Ids) -> bool:
    """Return whether a line may be the rest of the one above, which a terminal has broken."""
    return text[:1].islower() and " " in text and not (survived(names) or calm(names))


def _goes_on(text: str, names: Ids) -> bool:
    indented = text[:1].isspace() and not (calm(names) or works(names))
    typed = bool(_PROMPT.search(text) or KEYS.search(text))
    return indented or carries_on(names) or typed or dumped(text) or is_code(text)


def _nearest(
    lines: list[LastLine], texts: list[str], ids: list[Ids], short: bool
) -> tuple[LastLine | None, bool]:
    """Return the last line that reads like an error and behind which others stand.

    Of those that stand in a row right above it, the telling one.

    Also whether it may be the end: no work follows, and it says more than a word, or it is near the
    end or in a `short` text, and no line of another level follows, or behind a level no word that
    all is done. What a program says while it closes counts for neither, unless it was at that
    before: then an error below a fatal level may be an effect.
    """
    if short and heads([line.line for line in lines], ids):
        return lines[0], True
    closing = began_to_close(ids)
    nearest: LastLine | None = None
    counts = calmly = over = given_up = row = past = ended = at_work = False
    others, work = 0, list[int]()  # since when it was done
    only = sum(has_level(names) for names in ids) >= len(ids) - _FEW_BEHIND > _FEW_LINES
    forms = Counter(map(without_numbers, texts))
    for behind, (line, names) in enumerate(zip(reversed(lines), reversed(ids), strict=True)):
        if sum(since < line.line for since in work) >= _FEWEST_WORK:
            break
        at = len(lines) - 1 - behind
        if (at_work or over) and AGAIN in names:
            break
        past = past or carried_past(names)
        if line.since and not closes(names):
            work.append(line.since)
        if complete(wrong(names)) and not carries_on(names):
            printed = over and any(map(is_frame, ids[at + 1 : at + 2]))  # with its stack, by itself
            if complete(strong(names)) and not printed and (sure(names) or not over):
                as_before = resumed(texts, ids, at, mere=False)
                if calm(names) and watched(names):  # it quotes what stands above
                    given_up = given_up or not as_before
                    if nearest is None or calm(ids[lines.index(nearest)]):
                        nearest = line
                    continue
                below = nearest and nearest.text[:1].isspace() and watched(names)
                warned = calm(names) and at_work
                ending = given_up or not (as_before or warned or (closing and sure(names)))
                return nearest if below else line, ending
            row = row and not line.text.rstrip().endswith(":")  # it announces
            if nearest is None or says_more(names, ids[lines.index(nearest)], row=row):
                nearest = line
            level = has_level(names) and not (calmly and carried_past(names))
            near = short or others <= _FEW_BEHIND or (behind <= _NEAR_END and level)
            pasted = short and level and others <= _MOST_BEHIND and not (over or closing)
            told = (near and not calmly) or (pasted and not calm_again(texts, ids, at)) or only
            ran_on = ended or (past and any(done(above, last=False) for above in ids[:at]))
            told = told and not ran_on
            counts = counts or (told and not resumed(texts, ids, at, mere=True))
        elif (closes(names) and not closing) or stands_still(texts, at):
            continue
        elif (
            got_over(names)
            or (behind < _FEWEST and has(names, WELL))
            or (survived(names) and not (short and forms[without_numbers(texts[at])] < _FEWEST))
        ):
            break
        on = _goes_on(line.text, names)
        calmly, over = calmly or calm(names), over or done(names, last=behind < _FEWEST)
        ended, at_work = ended or ends(names), at_work or works(names)
        row, others = bool(wrong(names)) or (row and on), others + (not on)
    rows = zip(reversed(lines), reversed(ids), strict=True)
    nearest = nearest or next((one for one, names in rows if complete(wrong(names))), None)
    return nearest, counts or given_up


def _told_alone(
    lines: list[LastLine], texts: list[str], ids: list[Ids], whole: bool
) -> LastLine | None:
    """Return the last line with a word for what went wrong behind which nothing goes on.

    What tells of going on, without known words: a line of a form that its writer had printed
    before. So does the form of the line itself, where it came again and again between others.
    """
    alike = whole and len({*map(without_numbers, texts)}) == 1 and told_alone(ids[-1], AT_END)
    if alike or is_stuck(texts, ids):
        return lines[-1]
    few = whole and len(lines) <= _FEW_LINES
    rest: LastLine | None = None
    words = IN_FEW if few else AT_END
    behind = 0
    for at in range(len(lines) - 1, -1, -1):
        line, names = lines[at], ids[at]
        told = told_alone(names, words) and (few or not is_habit(texts, at))
        if told and not (is_text(line.text) or in_column(texts, at) or below_calm(texts, ids, at)):
            if not few and calm_again(texts, ids, at):
                return None
            headed = few or (at > 0 and lines[at - 1].text.endswith(line.text.strip()))
            if not (headed and _goes_on(line.text, names)):
                short = len(line.text.split()) < _FEWEST_WORDS and _ERRNO not in names
                return lines[at - 1] if short and at and _ERRNO in ids[at - 1] else line
            rest = rest or line  # the message begins above it
        goes_on = line.since or survived(names) or done(names, last=behind < _FEWEST)
        behind += not _goes_on(line.text, names)
        if got_over(names) or (not few and (goes_on or behind > _MOST_BEHIND)):
            return None
    return rest


def _ended(rows: Rows, ids: list[Ids]) -> int | None:
    """Return the place of the program's own word that it came to its end."""
    for place in range(len(rows) - 1, -1, -1):
        if ends(ids[place]):
            return place
        if not _goes_on(rows[place][1], ids[place]):
            return None
    return None


def _done(ids: list[Ids]) -> int | None:
    """Return the place of the last word on an end behind which nothing tells of work or errors."""
    for place in range(len(ids) - 1, -1, -1):
        if done(ids[place], last=place + _FEWEST >= len(ids)):
            return place
        if cut_in_thread(ids[place - 1] if place else (), ids[place]) or carries_on(ids[place]):
            continue  # which may be of the way out; what goes on counts with its head
        if survived(ids[place]) or wrong(ids[place]) or told_alone(ids[place], AT_END):
            return None
    return None
