"""Tables of names: exact ones first, then the longest prefix that a star ends."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


def load_table(file_name: str) -> dict[str, list[dict[str, Any]]]:
    """Return one TOML table of this package."""
    # not importlib.resources, which takes 15 ms to import on a path where every command goes
    return tomllib.loads(Path(__file__).with_name(file_name).read_text("utf-8"))


class NameTable(Generic[Value]):
    """Values by name; a name of the table that ends in a star stands for all that start so.

    A look-up costs one dictionary access for each length that a prefix in the table has: no
    regular expression sees a name that comes from evidence.
    """

    def __init__(self, rows: Iterable[tuple[str, Value]]) -> None:
        """Take rows of (names separated by line ends, value); the first row with a name wins."""
        self._exact: dict[str, Value] = {}
        self._prefixes: dict[str, Value] = {}
        for names, value in rows:
            for name in filter(None, names.split("\n")):
                if name.endswith("*"):
                    self._prefixes.setdefault(name[:-1], value)
                else:
                    self._exact.setdefault(name, value)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)

    def get(self, name: str) -> Value | None:
        """Return the value for a name, None if the table does not know it."""
        return next(self.all(name), None)

    def all(self, name: str) -> Iterator[Value]:
        """Yield every value that fits a name, the most exact first."""
        value = self._exact.get(name)
        if value is not None:
            yield value
        for length in self._lengths:
            value = self._prefixes.get(name[:length])
            if value is not None:
                yield value

    def names(self) -> tuple[str, ...]:
        """Return all names, prefixes without their star."""
        return (*self._exact, *self._prefixes)


class PythonTable(Generic[Value]):
    """Values by Python function: ``torch/_tensor.py backward``; the function may be a star.

    The file of the table is the end of a path, from a folder's border on.
    """

    def __init__(self, rows: Iterable[tuple[str, Value]]) -> None:
        """Take rows of (``FILE FUNCTION`` separated by line ends, value)."""
        self._by_name: dict[tuple[str, str], list[tuple[str, Value]]] = {}
        for names, value in rows:
            for name in filter(None, names.split("\n")):
                file, _, function = name.rpartition(" ")
                key = (file.rpartition("/")[2], function)
                self._by_name.setdefault(key, []).append((file, value))

    def get(self, file: str, function: str) -> Value | None:
        """Return the value for a function, which may be qualified (``Thread.run``)."""
        base, last = file.rpartition("/")[2], function.rpartition(".")[2]
        for name in (last, "*"):
            for tail, value in self._by_name.get((base, name), ()):
                if file == tail or file.endswith("/" + tail):
                    return value
        return None
