"""Values that are secret by their form, wherever they stand: tokens, headers, commands.

The forms are data (`knowledge/secret_forms.toml`). Each has words without which it cannot match;
only the expressions of forms whose words occur are compiled.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, cached_property

from postmortem.knowledge.lookup import load_table
from postmortem.report.secrets import looks_random

Present = Callable[[Sequence[str], str], Collection[int]]
"""Tells which of some words stand in a text, by their numbers."""

_SHORTEST = 16
"""Characters after a beginning that make a token, where it is cut short or of an unknown kind."""

_SHORTEST_MIXED = 12
"""The same where there is a digit among them."""

# What follows a text that was cut, by strace, gdb or ourselves; the end of a text may be a cut too.
_CUT = r"""(?=\\?["']?(?:\.\.\.|\s?…))"""


class Form:
    """One kind of secret."""

    def __init__(
        self, name: str, words: tuple[str, ...], pattern: str, *, cut: str = "", random: int = 0
    ) -> None:
        """Take words and expression; `random`: length of a beginning that words have too.

        `cut` is an expression for what a text that was cut short has of it, before the cut.
        """
        self.name = name
        self.words = words
        self.pattern = pattern
        self._cut = cut
        self._random = random

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled expression; a group ``s`` is the secret part of a match."""
        return re.compile(self.pattern)

    @cached_property
    def _cut_regex(self) -> re.Pattern[str]:
        return re.compile(f"(?:{self._cut}){_CUT}")

    def may_match(self, text: str) -> bool:
        """Return whether one of its words stands in a text."""
        for word in self.words:  # noqa: SIM110  a loop, as this is called for every text
            if word in text:
                return True
        return False

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where secrets of this kind stand."""
        regexes = [self.regex]
        if self._cut and ("..." in text or "…" in text):
            regexes.append(self._cut_regex)
        for regex in regexes:
            group = "s" if "s" in regex.groupindex else 0
            for match in regex.finditer(text):
                if not self._random or looks_random(match[0][self._random :]):
                    yield match.span(group)


@cache
def forms() -> tuple[Form, ...]:
    """Return all forms."""
    table = load_table("secret_forms.toml")
    made = [
        _token(row["of"], *line.split(" ", 3))
        for row in table["prefix"]
        for line in row["lines"].splitlines()
    ]
    made += [
        Form(
            row["id"],
            tuple(row["words"].splitlines()),
            row["pattern"].strip("\n"),
            cut=row.get("cut", ""),
        )
        for row in table["form"]
    ]
    return tuple(made)


def _token(of: str, begins: str, length: str, unlike: str, whose: str) -> Form:
    del unlike
    name = f"{whose} ({begins})"
    head = re.escape(begins)
    if length[0] == "=":
        # A short beginning: the whole token, between things that are no part of a name.
        small = "a-z" in of
        before = r"(?<![\w.-])" if small else "(?<![A-Za-z0-9])"
        mixed = rf"(?=[{of}]*\d)" if small else ""
        whole = rf"[{of}]{{{length[1:]}}}(?![A-Za-z0-9])"
        cut = rf"[{of}]{{8,}}{_CUT}|(?=[{of}]*\d)[{of}]{{{_SHORTEST},}}\Z"
        pattern = rf"{before}{head}{mixed}(?:{whole}|{cut})"
        return Form(name, (begins,), pattern)
    random = length[0] == "~"
    least = min(int(length.lstrip("~")), _SHORTEST)
    mixed = rf"(?=[{of}]*\d)"
    pattern = (
        rf"(?<![A-Za-z0-9]){head}(?:[{of}]{{{least},}}|{mixed}[{of}]{{{_SHORTEST_MIXED},}}"
        rf"|[{of}]{{4,}}{_CUT}|{mixed}[{of}]{{8,}}\Z)(?:[.=]{{1,2}}[{of}]{{2,}})*={{0,2}}"
    )
    return Form(name, (begins,), pattern, random=len(begins) if random else 0)


@cache
def _words() -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return all words, and for each the number of its form."""
    pairs = [(word, i) for i, form in enumerate(forms()) for word in form.words]
    return tuple(word for word, _ in pairs), tuple(number for _, number in pairs)


def words_in(words: Sequence[str], text: str) -> Collection[int]:
    """Return which words stand in a text: right for a short one."""
    return [number for number, word in enumerate(words) if word in text]


def forms_in(text: str, present: Present = words_in) -> tuple[Form, ...]:
    """Return the forms that may match in a text."""
    words, owners = _words()
    known = forms()
    return tuple(known[i] for i in sorted({owners[number] for number in present(words, text)}))
