"""What a thread is there for; the table is `threads.toml` beside this file."""

from collections.abc import Iterable
from functools import lru_cache

from postmortem.knowledge.frames import UNKNOWN
from postmortem.knowledge.lookup import NameTable, PythonTable, load_table
from postmortem.knowledge.symbols import symbol
from postmortem.records import record

MAIN, PYTHON = "main", "Python thread"
OUTERMOST = 8
"""Frames outside of thread start-up that may give a role: a library's loop is among the first."""


@record
class _Tables:
    native: NameTable[tuple[str, str | None]]
    python: PythonTable[str]
    areas: NameTable[str]
    names: NameTable[str]


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    table = load_table("threads.toml")
    return _Tables(
        NameTable((row["names"], (row["role"], row.get("area"))) for row in table["role"]),
        PythonTable((row["names"], row["role"]) for row in table["python_role"]),
        NameTable((row["names"], row["role"]) for row in table["area_role"]),
        NameTable((row["names"], row["role"]) for row in table["thread_name"]),
    )


def role_of_name(name: str | None) -> str | None:
    """Return the role of a thread that calls itself so (``"pt_nccl_watchdg"``)."""
    return _tables().names.get(name) if name else None


@lru_cache(maxsize=8192)
def role_of_function(function: str, area: str = UNKNOWN) -> str | None:
    """Return the role of threads that have this native function among their outermost."""
    found = _tables().native.get(symbol(function).bare)
    if found is None:
        return None
    role, wanted = found
    return role if wanted is None or area == UNKNOWN or area.startswith(wanted) else None


def role_of_python(file: str | None, function: str) -> str | None:
    """Return the role of threads that have this Python function among their outermost."""
    return _tables().python.get(file or "", function)


def role_of_area(areas: Iterable[str]) -> str | None:
    """Return the role of a thread by its frames' areas, outermost first.

    Libraries without symbols, the CUDA driver above all, start threads that nothing else names.
    """
    for area in areas:
        if area not in ("C library", "C++ runtime", UNKNOWN):
            return _tables().areas.get(area)
    return None
