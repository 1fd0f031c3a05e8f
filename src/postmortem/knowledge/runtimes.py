"""Languages whose own frames are not read: what stands for them, and who reads them."""

from collections.abc import Iterable
from functools import lru_cache

from postmortem.facts.threads import Frame
from postmortem.knowledge.lookup import load_table
from postmortem.knowledge.modules import stem
from postmortem.records import record


@record
class Unread:
    """One language whose frames stand on a stack unread."""

    language: str
    seen: str
    """What stands in the stack instead."""
    remedy: str


@record
class _Row:
    modules: frozenset[str]
    functions: tuple[str, ...]
    unread: Unread


def unread_languages(frames: Iterable[Frame]) -> tuple[Unread, ...]:
    """Return the languages of which frames among these are not read, in the table's order."""
    native = [frame for frame in frames if frame.kind == "native"]
    names = {frame.function for frame in native}
    modules = {stem(path.rpartition("/")[2]) for path in {f.module for f in native} if path}
    return tuple(
        row.unread
        for row in _rows()
        if row.modules & modules
        or (row.functions and any(name.startswith(row.functions) for name in names))
    )


@lru_cache(maxsize=1)
def _rows() -> tuple[_Row, ...]:
    return tuple(
        _Row(
            frozenset(row.get("modules", "").split()),
            tuple(row.get("functions", "").split()),
            Unread(row["language"], row["seen"], row["remedy"]),
        )
        for row in load_table("runtimes.toml")["runtime"]
    )
