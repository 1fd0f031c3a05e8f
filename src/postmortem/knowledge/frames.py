"""What a frame does, in plain words; the table is `frames.toml` beside this file.

A note is about the function, never about the case: what the case means is for rules to say.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from postmortem.knowledge.lookup import NameTable, PythonTable, load_table
from postmortem.knowledge.symbols import symbol
from postmortem.records import record

C_LIBRARY, UNKNOWN = "C library", "unknown"


@record
class FrameKind:
    """What is known of one function; all empty when the table has nothing."""

    note: str | None = None
    """``"rethrows what NCCL reported"``."""
    fold: str | None = None
    """Boilerplate: a run of such frames may be shown as one line of this name."""
    idle: bool = False
    """A thread whose innermost frame this is has nothing to do."""
    wait: bool = False
    """Part of the way into the kernel: says how the thread waits, not for what."""
    role: str | None = None
    """`idle` holds only for threads of this role."""

    @property
    def noise(self) -> bool:
        """Whether the frame may be folded away."""
        return self.fold is not None


NOTHING = FrameKind()


@record
class _Entry:
    area: str | None
    kind: FrameKind


@record
class _Tables:
    native: NameTable[tuple[_Entry, ...]]
    python: PythonTable[FrameKind]


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    table = load_table("frames.toml")
    native = NameTable(_with_alternatives(table["frame"]))
    return _Tables(native, PythonTable((row["names"], _kind(row)) for row in table["python"]))


def _kind(row: dict[str, Any]) -> FrameKind:
    return FrameKind(
        note=row.get("note"),
        fold=row.get("fold"),
        idle=row.get("idle", False),
        wait=row.get("wait", False),
        role=row.get("role"),
    )


def _with_alternatives(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, tuple[_Entry, ...]]]:
    """Yield each name with all entries that have it: they differ in the area that they hold in."""
    entries: dict[str, tuple[_Entry, ...]] = {}
    for row in rows:
        entry = _Entry(row.get("area"), _kind(row))
        for name in filter(None, row["names"].split("\n")):
            entries[name] = (*entries.get(name, ()), entry)
    yield from entries.items()


@lru_cache(maxsize=8192)
def frame_kind(function: str, area: str = UNKNOWN) -> FrameKind:
    """Return what a native function does; `area` is where its module belongs (`area_of`)."""
    name = symbol(function).bare
    found = _first(name, area)
    if found is None and area in (C_LIBRARY, UNKNOWN) and name.startswith("_"):
        found = _first(name.lstrip("_"), area)
    return found or NOTHING


def _first(name: str, area: str) -> FrameKind | None:
    for entries in _tables().native.all(name):
        for entry in entries:
            if entry.area is None or area == UNKNOWN or area.startswith(entry.area):
                return entry.kind
    return None


@lru_cache(maxsize=8192)
def python_frame_kind(file: str | None, function: str) -> FrameKind:
    """Return what a Python function does, by its file and name."""
    return _tables().python.get(file or "", function) or NOTHING
