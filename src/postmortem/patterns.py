"""Regular expressions that are compiled when they are first needed.

A start of the program passes some 360 of them, of which a report needs some dozens; compiling all
costs 40 ms.
"""

import re
from collections.abc import Callable, Iterator


class Pattern:
    """A regular expression, as `re.compile` takes it, with the methods that are used here."""

    __slots__ = ("_compiled", "_flags", "pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        """Take an expression."""
        self.pattern = pattern
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    @property
    def regex(self) -> re.Pattern[str]:
        """The compiled expression."""
        if self._compiled is None:
            self._compiled = re.compile(self._source(), self._flags)
        return self._compiled

    def _source(self) -> str:
        return self.pattern

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        return (self._compiled or self.regex).search(text, start)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        """As `re.Pattern.match`."""
        return (self._compiled or self.regex).match(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern.fullmatch`."""
        return (self._compiled or self.regex).fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """As `re.Pattern.finditer`."""
        return self.regex.finditer(text)

    def findall(self, text: str) -> list[str]:
        """As `re.Pattern.findall`, for expressions with at most one group."""
        return self.regex.findall(text)

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        """As `re.Pattern.split`, for expressions without groups."""
        return [part or "" for part in self.regex.split(text, maxsplit)]

    def sub(self, new: str | Callable[[re.Match[str]], str], text: str, count: int = 0) -> str:
        """As `re.Pattern.sub`."""
        return (self._compiled or self.regex).sub(new, text, count)
