"""Tables of names: exact ones first, then the longest prefix that a star ends."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from postmortem.records import record

Value = TypeVar("Value")


def load_table(file_name: str) -> dict[str, list[dict[str, Any]]]:
    """Return one TOML table of this package; raises ValueError at a line that is too fancy.

    Of TOML only what the tables use: ``[[name]]``, and keys with a plain string, a raw string in
    one line or over several, or a boolean. tomllib takes 12 ms to import and read them, as long as
    the core.
    """
    # not importlib.resources, which takes 15 ms to import on a path where every command goes
    with (Path(__file__).parent / file_name).open(encoding="utf-8") as file:
        return _parse(file_name, file.read().split("\n"))


@record
class OutsideEnd:
    """What a signal, a limit or a scheduler's word means that ends a process from outside."""

    means: str
    steps: tuple[str, ...]


def outside_end(kind: str, name: str | None, host: str = "") -> OutsideEnd | None:
    """Return what is known of an end from outside: of a signal, a limit of memory, a pod, a job."""
    rows = load_table("outside_ends.toml")[kind] if name else []
    found = [row for row in rows if name in lines_of(row["name"])]
    made = (OutsideEnd(row["from"], lines_of(row["next"].format(host=host))) for row in found)
    return next(made, None)


def lines_of(text: str) -> tuple[str, ...]:
    """Return the lines of a block that say something."""
    return tuple(filter(None, text.split("\n")))


def _parse(file_name: str, lines: list[str]) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = {}
    row: dict[str, Any] | None = None
    number = 0
    while number < len(lines):
        line = lines[number].strip()
        number += 1
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition(" = ")
        if line.startswith("[[") and line.endswith("]]"):
            tables.setdefault(line[2:-2], []).append(row := {})
        elif row is None or not equals or key in row:
            raise ValueError(f"{file_name}:{number}: no key of a table: {line}")
        elif value == "'''":
            end = lines.index("'''", number)
            row[key] = "\n".join([*lines[number:end], ""])
            number = end + 1
        elif value in ("true", "false"):
            row[key] = value == "true"
        elif len(value) > 1 and value[0] == value[-1] and _is_plain(value):
            row[key] = value[1:-1]
        else:
            raise ValueError(f"{file_name}:{number}: a value that the tables do not use: {value}")
    return tables


def _is_plain(value: str) -> bool:
    """Return whether what stands in quotes is the string itself, without any escape."""
    inner = value[1:-1]
    return value[0] not in inner and (value[0] == "'" or (value[0] == '"' and "\\" not in inner))


class NameTable(Generic[Value]):
    """Values by name; a name of the table that ends in a star stands for all that start so.

    A look-up costs one dictionary access for each length that a prefix in the table has: no
    regular expression sees a name that comes from evidence.
    """

    def __init__(self, rows: Iterable[tuple[str, Value]]) -> None:
        """Take rows of (names separated by line ends, value); the first row with a name wins."""
        all_names = [(name, value) for names, value in rows for name in lines_of(names)]
        all_names.reverse()
        self._exact = {name: value for name, value in all_names if name[-1] != "*"}
        self._prefixes = {name[:-1]: value for name, value in all_names if name[-1] == "*"}
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
