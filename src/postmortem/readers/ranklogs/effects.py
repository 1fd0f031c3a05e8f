"""What of last lines is an error by those around it: habits and effects are none.

A supervisor lives on that loses its workers again and again, and their work never ends.
"""

from collections.abc import Sequence

from postmortem.facts.last_lines import LastLine
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_words import (
    AT_END,
    CANCELLED,
    MOVES,
    STOP,
    WORD,
    Ids,
    calm,
    complete,
    done,
    ends,
    has,
    is_code,
    is_habit,
    says_why,
    stopped,
    strong,
    survived,
    told_alone,
    works,
    wrong,
)
from postmortem.records import replace
from postmortem.text import without_numbers

WORKER = "last-lost-worker"
"""How ids begin of what a supervisor says of its worker's end."""
_ERRORS = {"last-lost-worker": "last-error-died", "last-lost-worker-limit": "last-error-memory"}
KEYS = Pattern(r"^(?:\^C)+|\s(?:\^C)+$")
"""What a terminal shows of the keys that interrupt a program, and what it writes next behind."""
_OUTPUT, _OUTPUT_END = Pattern(r"^\s*╰─> \[\d+ lines? of output\]$"), "[end of output]"
_AGAIN = 3
_FEWEST_CUT = 12
"""Characters of a line that was cut off, by which it is known again."""
_COUNTED = Pattern(
    r"^\S+(?: (?:submitted|started|completed|cancell?ed))?: *\d+$|^\d[\w.\[\]-]*[ ,;|]+[A-Z_]{4,}$"
)
_COMPLAINTS = ("last-error-word-setup", "last-error-word-shell")
_ALL = ("last-error-", "last-alone-", "last-few")
_WORDS = ("last-alone-", "last-few")
_SPEAKS = Pattern(
    r"^[*_> ]*[A-Z][^.:]*\?[*_ ]*$"
    r"|(?:^|\b[a-z]+,? |[.,] |[*_>(])I(?:'m|'ve| (?:am|was|have|had|got|get|ran|run|tried|try|used"
    r"|use|want|need|think|see|saw|found|faced|face|did|do|can|could|would)) "
)
"""A person asks, in one sentence, or speaks of himself: no program does."""
_ENDS_OTHERS, _MORE = "last-others-ended", "last-more"
_RECORDER = "last-recorder"
_EFFECTS = (
    STOP, _ENDS_OTHERS, "last-error-signal", "last-error-code", "last-error-died", "last-error-cut",
    "last-error-watch-closing", "last-alone-ended", "last-alone-code",
)  # fmt: skip
"""How ids begin of what is said of those that were ended."""
_NEAR = 3
_MOST_SAVING = 4
"""Lines of work behind the word that a program is to end: it saves what it has."""


def without_repeated(texts: Sequence[str], ids: Sequence[Ids]) -> list[Ids]:
    """Return the ids of lines, no error in code, nor in a complaint of a tool that was outlived.

    That is one which it made twice, in the same words but for the last, and others wrote between.
    Behind the word that all is done, when things are put away, a tool's own word is one, and who
    is told to end did no wrong.
    """
    ids = _without_cut(texts, ids)
    first: dict[str, int] = {}
    outlived: set[str] = set()
    said = [without_numbers(text).rpartition(" ")[0] for text in texts]
    others, over = 0, False
    late: list[bool] = []
    for words, names in zip(said, ids, strict=True):
        late.append(over and (stopped(names) or CANCELLED in names))
        over = (over or done(names, last=False)) and not has(names, MOVES)
        if has(names, _COMPLAINTS) or (over and WORD in names):
            if first.setdefault(words, others) < others:
                outlived.add(words)
        else:
            others += over or calm(names) or works(names)
    rows = zip(late, texts, said, ids, strict=True)
    return [
        tuple(
            name
            for name in names
            if not (name.startswith(_ALL) and (stops or words in outlived or is_code(text)))
            and not (name.startswith(_WORDS) and _SPEAKS.search(text) is not None)
        )
        for stops, text, words, names in rows
    ]


def without_output(
    lines: list[LastLine], texts: Sequence[str], ids: list[Ids]
) -> tuple[list[LastLine], list[Ids]]:
    """Return lines and their ids, where pip's output of a command that had failed is cut off.

    There is no work in it, and a mere word is no error: the command went on.
    """
    heads = [at for at, text in enumerate(texts) if _OUTPUT.search(text)]
    if not heads or any(_OUTPUT_END in text for text in texts[heads[-1] :]):
        return lines, ids
    since = heads[-1] + 1
    shown = [replace(line, since=0) for line in lines[since:]]
    return [*lines[:since], *shown], [*ids[:since], *map(strong, ids[since:])]


def in_column(texts: Sequence[str], at: int) -> bool:
    """Return whether a line is a name and a number, and one beside it too: a table counts.

    Or a number and a state: a scheduler lists jobs.
    """
    beside = (*texts[max(0, at - 1) : at], *texts[at + 1 : at + 2])
    return _COUNTED.match(texts[at]) is not None and any(map(_COUNTED.match, beside))


def without_ended(ids: Sequence[Ids]) -> list[Ids]:
    """Return the ids of lines: how others end, because of one that failed, goes on with that."""
    begin = next((at for at in range(len(ids)) if _ends_others(ids, at)), len(ids))
    return [(_MORE,) if at >= begin and has(row, _EFFECTS) else row for at, row in enumerate(ids)]


def without_recorders(ids: Sequence[Ids]) -> list[Ids]:
    """Return the ids of lines: what who records a run says behind its end goes on with that."""
    begin = next((at for at in range(len(ids)) if done(ids[at], last=False)), len(ids))
    return [(_MORE,) if at > begin and _RECORDER in row else row for at, row in enumerate(ids)]


def _ends_others(ids: Sequence[Ids], at: int) -> bool:
    """Return whether a line says that others are ended, and one near above that one had failed."""
    if _ENDS_OTHERS not in ids[at]:
        return False
    above = ids[max(0, at - _NEAR) : at]
    failed = (complete(wrong(row)) or told_alone(row, AT_END) for row in above if not stopped(row))
    return any(failed)


def lost_again(ids: Sequence[Ids]) -> list[Ids]:
    """Return the ids of lines, the end of a worker an error where workers were lost to the end.

    That is several times in the same words, and neither work nor its end stands between or behind.
    """
    since = next((at for at in range(len(ids), 0, -1) if _goes_on(ids[at - 1])), 0)
    said = [name for names in ids[since:] for name in names if name in _ERRORS]
    if not any(said.count(name) >= _AGAIN for name in _ERRORS):
        return [*ids]
    late = ((*(_ERRORS[name] for name in row if name in _ERRORS), *row) for row in ids[since:])
    return [*ids[:since], *late]


def _without_cut(texts: Sequence[str], ids: Sequence[Ids]) -> list[Ids]:
    """Return the ids of lines, the last one none of its own that is a line above, cut off."""
    *above, last = map(without_numbers, texts)
    begin = last.rstrip("# ")
    tells = last in above or survived(ids[-1]) or bool(wrong(ids[-1]))
    cut = len(begin) >= _FEWEST_CUT and any(one.startswith(begin) for one in above)
    return [*ids[:-1], (_MORE,)] if cut and not tells else [*ids]


def _goes_on(names: Ids) -> bool:
    return survived(names) or done(names, last=False)


def told_to_end(
    lines: Sequence[LastLine], texts: Sequence[str], ids: Sequence[Ids]
) -> LastLine | None:
    """Return the line that tells a program to end, where nothing failed before but by habit."""
    told: LastLine | None = None
    keys = over = False
    saving = 0
    for at in range(len(lines) - 1, -1, -1):
        line, names = lines[at], ids[at]
        typed = not over and KEYS.search(line.text) is not None
        if typed or stopped(names):
            told, keys = line, typed
        elif told is not None and (ends(names) or (keys and done(names, last=True))):
            return None
        elif survived(names):
            saving += 1
            at_last = at == len(lines) - 1 and is_habit(texts, at)
            if told is not None or saving > _MOST_SAVING or at_last:
                break
        elif told is not None and complete(says_why(names)) and not is_habit(texts, at):
            return None
        over = over or ends(names)
    return told
