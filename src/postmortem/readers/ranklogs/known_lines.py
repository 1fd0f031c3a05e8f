"""Which known messages stand in the lines that were kept: the knowledge base has their words."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TypeAlias

from postmortem.facts.signature import Match
from postmortem.readers.signatures import Signatures

Found: TypeAlias = Mapping[str, Match]
"""The messages of one line by their ids."""


class KnownLines:
    """The messages of many lines, looked for in one pass."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Look through lines at once; others are looked through when they are asked for."""
        self._signatures = Signatures.load("line")
        different = list(dict.fromkeys(texts))
        rows = self._signatures.matches(different)
        self._found: dict[str, Found] = {
            text: {match.id: match for match in row}
            for text, row in zip(different, rows, strict=True)
            if row
        }
        self._seen = frozenset(different)

    def of(self, text: str) -> Found:
        """Return what a line holds."""
        if text not in self._seen and text not in self._found:
            self._found[text] = {match.id: match for match in self._signatures.matches([text])[0]}
        return self._found.get(text, _NOTHING)

    def matches(self, text: str) -> tuple[Match, ...]:
        """Return what a line holds, in the order of the knowledge base."""
        return tuple(self.of(text).values())


@cache
def keep_literals() -> list[tuple[str, str]]:
    """Return the texts whose lines the native reader keeps, and what for."""
    known = Signatures.load("line")
    return [
        (text, kind)
        for message, texts in zip(known.signatures, known.literals(), strict=True)
        for kind in message.keep
        for text in texts
    ]


_NOTHING: Found = {}
