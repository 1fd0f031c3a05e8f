"""How gdb is started: an environment and settings under which it runs no code but ours."""

import os
from collections.abc import Mapping

# What makes gdb, its Python, or the dynamic loader run or fetch things on behalf of the caller's
# shell. LD_LIBRARY_PATH stays: a gdb from an HPC module may need it to start at all.
_DROPPED = frozenset(
    {"DEBUGINFOD_URLS", "GDBHISTFILE", "GDBHISTSIZE", "LD_AUDIT", "LD_PRELOAD", "VIRTUAL_ENV"}
)

_SETTINGS = (
    "set auto-load off",
    # An empty value would bring the built-in default back (gdb manual, "Auto-loading safe path").
    "set auto-load safe-path /dev/null",
    # libthread_db runs code of the host's libc against the core's memory and has hung on cores of
    # another libc; the threads are in the core's notes anyway.
    "set libthread-db-search-path /dev/null",
    "set startup-with-shell off",
    "set may-call-functions off",
    "set confirm off",
    "set pagination off",
    "set width 0",
    "set height 0",
    "set history save off",
    "set history expansion off",
    "set index-cache enabled off",
    "set style enabled off",
    "set style emoji off",
    "set python print-stack message",
    "set print thread-events off",
    "set print inferior-events off",
    "set print symbol-loading off",
    "set print elements 64",
    "set print repeats 10",
    "set print max-depth 3",
    "set print static-members off",
    "set max-value-size 65536",
    # An internal error ends gdb at once: it would ask, and dump a core of its own.
    "maintenance set internal-error quit yes",
    "maintenance set internal-error corefile no",
    # Both walks go on to _start, so that they can be compared to the end.
    "set backtrace past-main on",
    "set backtrace past-entry off",
)


def environment(
    inherited: Mapping[str, str] | None = None, *, debuginfod: bool = False
) -> dict[str, str]:
    """Return the environment for gdb: the caller's without what changes its behaviour."""
    source = os.environ if inherited is None else inherited
    kept = {
        name: value
        for name, value in without_python(source).items()
        if name not in _DROPPED or (debuginfod and name == "DEBUGINFOD_URLS")
    }
    kept.pop("LANGUAGE", None)
    return kept | {
        "LC_ALL": "C.UTF-8",  # English messages, paths in any script
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TERM": "dumb",
    }


def without_python(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without PYTHON* variables.

    gdb embeds another Python than ours, which PYTHONHOME breaks and for which PYTHONPATH and
    PYTHONSTARTUP would load foreign code.
    """
    return {name: value for name, value in inherited.items() if not name.startswith("PYTHON")}


def settings(*, debuginfod: bool = False) -> tuple[str, ...]:
    """Return the gdb commands to run before anything is loaded.

    An older gdb refuses the ones that it does not know with a message and goes on; none of those
    guards something that an older gdb does.
    """
    return (*_SETTINGS, f"set debuginfod enabled {'on' if debuginfod else 'off'}")


def arguments(*, debuginfod: bool = False) -> tuple[str, ...]:
    """Return gdb's command line after its own name; MI 2 is what all since gdb 6 speak."""
    early = (part for line in settings(debuginfod=debuginfod) for part in ("-iex", line))
    return ("-nx", "--quiet", "--interpreter=mi2", *early)
