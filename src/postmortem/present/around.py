"""What stands around the line of a log that a card cites."""

import sys
from collections.abc import Sequence
from operator import itemgetter

from postmortem.diagnose.names import without_logger
from postmortem.facts.last_lines import LogExcerpt
from postmortem.patterns import Pattern
from postmortem.records import replace
from postmortem.report.card import Card
from postmortem.report.said import mostly_said, says_nothing_new, unsaid, words_of

_NEAREST = (-1, 1, -2, -3, -4, 2, 3, 4)
"""Which neighbours are wanted most: what led to a line stands above it."""
_MOST = 4
_FEWEST = 4
"""Characters of a word that is no filler."""
_STAMP = Pattern(r"(?=.*\d[:-]\d\d)[\d\[({:.,/TZ+-]+[\])}]?:?")
_NAME = Pattern(r"[^\"'{}]*[:\])>|]|INFO|WARN(?:ING)?|ERROR|DEBUG|CRITICAL|-")
_END = 4
"""Words by which the place is found where a line was cut."""
_SURELY = 150
"""Characters of a headline that are shown on any screen."""
_SAYS = Pattern(r"[^\W_]{2}")
_VARIES = Pattern(r"(?:0x)?[\da-fA-F]*\d[\da-fA-F]*")
FOLDERS = Pattern(
    r"(?<=[\s\[(])/(?:[\w.+-]+/)+(?=[\w.+-]+\.(?:cc|cpp|cu|cuh|c|h|hpp|py):\d)"
    r'|(?<=File ")/(?:[^"/]+/)+(?=[^"/]+", line \d)'
)
"""Of a source file, of which a card has no room: mostly those of the machine that built it."""


def with_neighbours(card: Card, excerpt: LogExcerpt) -> Card:
    """Return a card whose rows have the lines around the one that counts, and that one whole.

    Not where the headline has no word of that one: it only goes on with what failed. What is said
    already stands nowhere again, nor does it in other numbers.
    """
    name = excerpt.file.rpartition("/")[2]
    texts, whole = _bare(excerpt.rows), dict(excerpt.rows)
    rows: list[tuple[int, str, str]] = []
    for place, said in card.rows:
        file, _, number = place.rpartition(":")
        line = int(number) if file == name and number.isdecimal() else sys.maxsize
        rows.append(
            (line, place, _whole(said, whole[line], texts[line]) if line in texts else said)
        )
    if all(row[0] == sys.maxsize for row in rows):  # what happened, in its order, or other files
        rows = [(0, place, text) for _, place, text in rows]
    at = [*texts].index(excerpt.line)
    quoted = next((row for row in rows if row[0] == excerpt.line), None)
    if quoted is None:
        told = {word for word in words_of(card.headline) if len(word) >= _FEWEST}
        if told.isdisjoint(words_of(texts[excerpt.line])):
            return card
        quoted = (excerpt.line, f"{name}:{excerpt.line}", texts[excerpt.line])
        rows.append(quoted)
    said = " ".join((card.headline[:_SURELY], *(row[2] for row in rows)))
    forms = {_VARIES.sub("#", row[2]) for row in rows}
    lines = [*texts.items()]
    near: list[tuple[int, str, str]] = []
    for line, text in (lines[at + step] for step in _NEAREST if 0 <= at + step < len(lines)):
        rest, form = unsaid(text, said), _VARIES.sub("#", text)
        again = form in forms or not rest or (rest == text and mostly_said(text, said))
        if (
            not again
            and _SAYS.search(text)
            and len(near) < _MOST
            and all(row[0] != line for row in rows)
        ):
            forms.add(form)
            near.append((line, f"{name}:{line}", text))
    return replace(
        card,
        rows=tuple((place, text) for _, place, text in sorted((*rows, *near), key=itemgetter(0))),
        near=tuple((place, text) for _, place, text in near),
        quoted=quoted[1:],
    )


def _whole(said: str, line: str, bare: str) -> str:
    """Return what is said of a line, with the rest of it where that was cut."""
    words = said.removesuffix("…").split()[:-1]
    end = " ".join(words[-_END:])
    if said.endswith("…") and words and end in bare:
        said = f"{' '.join(words)}{bare.partition(end)[2]}"
    same = says_nothing_new(line, said) and says_nothing_new(said, line)
    return bare if same else said


def _bare(rows: Sequence[tuple[int, str]]) -> dict[int, str]:
    """Return lines without the times, names and levels that stand before all of them."""
    split = [text.split() for _, text in rows]
    same = 0
    for place, column in enumerate(map(set, zip(*split, strict=False))):
        if all(map(_STAMP.fullmatch, column)):
            same = place + 1
        elif len(column) > 1:
            break
        elif same == place and _NAME.fullmatch(*column):
            same = place + 1
    same = max(min(same, *(len(words) - 1 for words in split)), 0) if len(rows) > 1 else 0
    return {
        line: FOLDERS.sub("", without_logger(" ".join(words[same:])))
        for (line, _), words in zip(rows, split, strict=True)
    }
