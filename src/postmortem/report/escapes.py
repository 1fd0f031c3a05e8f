r"""Text as it was before something escaped it, with where each character stands.

strace, repr(), JSON and URLs write ``\n``, ``\x00``, ``\"``, ``\\u002d``, ``%2D``. A token behind
such an escape seems to be part of a longer word, and one that is escaped itself has no known form.
The same holds behind a colour, which ends in a letter, and where colours stand in the token.
"""

import re
from collections.abc import Iterator, Sequence

from postmortem.patterns import Pattern

_SIGN = Pattern(r"[\\%&\x1b\x9b^]")
_BACKSLASHED = Pattern(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[0-7]{1,3}|[abefnrtv\"'\\/])")
_OF_THE_WEB = Pattern(r"%[0-9A-Fa-f]{2}|&(?:amp|quot|lt|gt|\#3[49]);")
_COLOURS = Pattern(r"(?:(?:\x1b|\^\[)\[|\x9b)[0-?]{0,40}[ -/]{0,4}[@-~]|\x1b[()][0-9A-Z]")
_NAMED = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ENTITIES = {"&amp;": "&", "&quot;": '"', "&lt;": "<", "&gt;": ">", "&#34;": '"', "&#39;": "'"}
_DEEPEST = 3
"""JSON in a string that strace shows is escaped twice, and in a repr() three times."""


class Unescaped:
    """A text without its escapes."""

    def __init__(self, text: str, places: Sequence[int]) -> None:
        """Take a text, and for each of its characters, and its end, the place in the original."""
        self.text = text
        self._places = places

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where in the original a part of the text stands."""
        return self._places[start], self._places[end]


def unescaped(text: str) -> Iterator[Unescaped]:
    """Yield the text with one level of escapes less at a time; nothing where there are none."""
    if _SIGN.search(text) is None:
        return
    places: Sequence[int] = range(len(text) + 1)
    for level in range(_DEEPEST + 1):
        # Beside the chain: the password in "user%a1" is no escape, whatever stands around it.
        for kind in (_OF_THE_WEB, _COLOURS):
            aside = _without(kind, text, places)
            if aside is not None:
                yield Unescaped(*aside)
        plain = _without(_BACKSLASHED, text, places) if level < _DEEPEST else None
        if plain is None:
            return
        text, places = plain
        yield Unescaped(text, places)


def _without(escape: Pattern, text: str, places: Sequence[int]) -> tuple[str, Sequence[int]] | None:
    from array import array  # late: most texts have no escapes

    parts: list[str] = []
    kept = array("q")
    end = 0
    for match in escape.finditer(text):
        meant = _meant(match[0])
        parts += (text[end : match.start()], meant)
        kept.extend(places[end : match.start() + len(meant)])
        end = match.end()
    if not end:
        return None
    parts.append(text[end:])
    kept.extend(places[end:])
    return "".join(parts), kept


def _meant(escape: str) -> str:
    if escape[0] in "\x1b\x9b^":
        return ""
    if escape[0] == "%":
        return chr(int(escape[1:], 16))
    if escape[0] == "&":
        return _ENTITIES[escape]
    kind = escape[1]
    if kind in "xu":
        return chr(int(escape[2:], 16))
    if kind.isdigit():
        return chr(int(escape[1:], 8))
    return _NAMED.get(kind, kind)


def without_quotes(text: str) -> str:
    """Return a list of quoted words as one command line, each character in its place.

    ``["curl", "-u", "ada:…"]`` becomes `` curl    -u    ada:… ``.
    """
    return _LIST_SIGN.sub(_blank, text)


_LIST_SIGN = Pattern(r"[\[\"']*, [\"']+|[\"'], ?|[\[(][\"']|[\"'][\])]")


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
