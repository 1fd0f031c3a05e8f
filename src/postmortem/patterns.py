"""Regular expressions that are compiled when they are first needed.

A start of the program passes some 130 of them, of which a report needs a dozen; compiling all
costs 40 ms. A rule tries its expressions on every frame, and few of them fit any: one that says in
`words` what it cannot do without is neither compiled nor run where none of these words stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator


class Pattern:
    """A regular expression, as `re.compile` takes it, with the methods that are used here."""

    __slots__ = ("_compiled", "_flags", "pattern", "words")

    def __init__(self, pattern: str, flags: int = 0, *, words: tuple[str, ...] = ()) -> None:
        """Take an expression, and words of which every match holds at least one."""
        self.pattern = pattern
        self.words = words
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    @property
    def regex(self) -> re.Pattern[str]:
        """The compiled expression."""
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self._flags)
        return self._compiled

    def _cannot_match(self, text: str) -> bool:
        for word in self.words:  # noqa: SIM110  a loop, as this is called for every frame
            if word in text:
                return False
        return True

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        if self.words and self._cannot_match(text):
            return None
        return (self._compiled or self.regex).search(text, start)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        """As `re.Pattern.match`."""
        if self.words and self._cannot_match(text):
            return None
        return (self._compiled or self.regex).match(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern.fullmatch`."""
        if self.words and self._cannot_match(text):
            return None
        return (self._compiled or self.regex).fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """As `re.Pattern.finditer`."""
        if self.words and self._cannot_match(text):
            return iter(())
        return self.regex.finditer(text)

    def findall(self, text: str) -> list[str]:
        """As `re.Pattern.findall`, for expressions with at most one group."""
        if self.words and self._cannot_match(text):
            return []
        return self.regex.findall(text)

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        """As `re.Pattern.split`, for expressions without groups."""
        if self.words and self._cannot_match(text):
            return [text]
        return [part or "" for part in self.regex.split(text, maxsplit)]

    def sub(self, new: str | Callable[[re.Match[str]], str], text: str, count: int = 0) -> str:
        """As `re.Pattern.sub`."""
        if self.words and self._cannot_match(text):
            return text
        return (self._compiled or self.regex).sub(new, text, count)
