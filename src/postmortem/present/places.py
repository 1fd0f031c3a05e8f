"""Which values of a place are worth a line, and in which order."""

from collections.abc import Iterable

from postmortem.records import replace
from postmortem.report.card import Place

_DULL = ("<module", "<function", "<class", "<built-in", "<method", "<optimized out>", "<unreadable")
_MOST_VALUES = 12


def told_values(values: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the values that say something: no modules, functions, private names, ``self``."""
    told: dict[str, str] = {}
    for name, value in values:
        if name not in told and name not in ("self", "cls") and not name.startswith(("__", ".")):
            told[name] = value
    return tuple((n, v) for n, v in told.items() if not v.startswith(_DULL))


def with_values_in_order(place: Place) -> Place:
    """Return the place with the values first that its own line names, then its neighbours'."""
    lines = sorted(place.source, key=lambda row: abs(row[0] - (place.line or 0)))
    text = " ".join(words for _, words in lines)

    def nearness(pair: tuple[str, str]) -> int:
        at = _word_at(text, pair[0])
        return at if at >= 0 else len(text)

    values = sorted(place.values, key=nearness)[:_MOST_VALUES]
    return replace(place, values=tuple(values))


def _word_at(text: str, name: str) -> int:
    """Return where a name stands as a word of its own, -1 where it does not."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (_in_word(before) or _in_word(after)):
            return at
        at = text.find(name, at + 1)
    return -1


def _in_word(character: str) -> bool:
    return bool(character) and (character.isalnum() or character == "_")
