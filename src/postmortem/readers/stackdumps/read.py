"""Finds out which tool wrote a text with stacks, and reads it."""

from __future__ import annotations

from postmortem.facts.stackdumps import StackDump
from postmortem.readers.stackdumps import fault_handler, gdb_text, own, pyspy, pystack
from postmortem.readers.stackdumps.frames import Interned

_LOOKED_AT = 64 << 10
_ENOUGH = 3
_WRITTEN = ("  ", "Thread ", "Current thread ", "Timeout (", "Fatal Python error", "Extension mod")
_OF_GDB = ("#", " ", "\t", "[", "(gdb)", "warning: ", "Core was", "Program term", "Reading sym")


def looks_like_stacks(head: str) -> bool:
    """Return whether the beginning of a text is that of a tool's dump, and not of a log with one.

    A traceback of faulthandler inside of a log is the log's: its lines are read with that rank's.
    """
    return _tool(head[:_LOOKED_AT]) is not None


def read_stack_dumps(text: str, path: str, frames: Interned | None = None) -> list[StackDump]:
    """Return the stacks of all processes in a text; empty if it has none.

    `path` is for messages; `frames` may be shared between the files of many ranks. Raises
    EvidenceError for JSON that only looked like a dump.
    """
    frames = Interned() if frames is None else frames
    tool = _tool(text[:_LOOKED_AT])
    if tool == "json list":
        return pyspy.read_json(text, path, frames)
    if tool == "json object":
        return own.read_json(text, path, frames)
    if tool is None:
        return []
    return _READERS[tool](text.splitlines(), frames)


_READERS = {
    "py-spy": pyspy.read_text,
    "pystack": pystack.read_text,
    "gdb": gdb_text.read_text,
    "faulthandler": fault_handler.read_text,
}


def _tool(head: str) -> str | None:
    start = head.lstrip()
    if start.startswith("[") and '"frames"' in head and '"thread_id"' in head:
        return "json list"
    if start.startswith("{"):
        return "json object" if '"schema": "postmortem/' in head[:400] else None
    for line in head.splitlines()[:400]:
        if line.startswith("Process ") and pyspy.PROCESS.match(line):
            return "py-spy"
        if line.startswith("Traceback for thread ") and pystack.THREAD.match(line):
            return "pystack"
        if line.startswith("Thread ") and gdb_text.THREAD.match(line):
            return "gdb"
        if "Thread " in line and pyspy.THREAD.match(line):
            return "py-spy"
        if gdb_text.BARE.match(line) and _is_bare_gdb(head):
            return "gdb"
    return "faulthandler" if _is_faulthandler(head) else None


def _is_bare_gdb(head: str) -> bool:
    """Return whether a text is little else than what gdb's `bt` wrote, and no log with one."""
    lines = [line for line in head.splitlines() if line.strip()]
    known = sum(line.startswith(_OF_GDB) for line in lines)
    return 2 * known >= len(lines)


def _is_faulthandler(head: str) -> bool:
    """Return whether a text is little else than what faulthandler wrote."""
    lines = [line for line in head.splitlines() if line.strip()]
    if not any(fault_handler.THREAD.match(line) for line in lines[:_ENOUGH]):
        return False
    known = sum(line.startswith(_WRITTEN) for line in lines)
    return known >= 0.9 * len(lines)
