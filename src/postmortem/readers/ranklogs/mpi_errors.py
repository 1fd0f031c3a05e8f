"""What MPI libraries write when they end a job: MPI_Abort, and calls whose errors are fatal."""

from __future__ import annotations

from postmortem.facts.rank_logs import Said
from postmortem.patterns import Pattern

Rows = list[tuple[int, int, str]]

_WORLD = "MPI_COMM_WORLD"
_MOST_ROWS = 10
"""Lines that one notice may have, others' between them."""

# Open MPI 3 to 5, ompi/errhandler/errhandler_predefined.c
_OCCURRED = Pattern(r"^(?P<who>\[[^\]]*\] )?\*\*\* An error occurred in (?P<call>\w+)")
_REPORTED = Pattern(r"\*\*\* reported by process \[\d+,(?P<rank>\d{1,7})\]")
_ON = Pattern(r"\*\*\* on (?:communicator )?(?P<on>\S.*)$")
_CLASS = Pattern(r"\*\*\* (?P<name>MPI_ERR_\w+): (?P<what>.*)$")
# ompi/runtime/help-mpi-runtime.txt: "with errorcode 17." of 4, "  Errorcode: 17" of 5
_INVOKED = Pattern(r"^MPI_ABORT was invoked on rank (?P<rank>\d{1,7}) in communicator (?P<on>\S.*)")
_ERRORCODE = Pattern(r"^(?:with errorcode |\s+Errorcode: )(?P<code>-?\d+)")
# MPICH 3 to 4, Intel MPI, Cray MPICH (src/mpi/init/abort.c, src/util/mpir_handlemem.h)
_ABORT = Pattern(
    r"\bAbort\(-?\d+\)(?: on node \d{1,7})? \(rank \d{1,7} in comm \d+\): (?P<what>.+)$"
)
_CALLED = Pattern(r"application called MPI_Abort\((?P<on>[^,]{1,200}), (?P<code>-?\d+)\)")
_STACK = Pattern(r"^(?:\w+|\(unknown\))\(\d*\)\.*: (?P<what>.+)$")
_RANKS = (
    _REPORTED,
    _INVOKED,
    Pattern(r"MPICH ERROR \[Rank (?P<rank>\d{1,7})\]"),
    Pattern(r"\bAbort\(-?\d+\) on node (?P<rank>\d{1,7}) \(rank"),
    # of another communicator it is the rank in that one
    Pattern(r"application called MPI_Abort\(MPI_COMM_WORLD, -?\d+\) - process (?P<rank>\d{1,7})"),
)
WORDS = ("MPI_ABORT was", "MPI_Abort(", "An error occurred in", "Abort(")
"""One of these stands in the first line of each."""


def mpi_error(rows: Rows, at: int) -> tuple[Said, int] | None:
    """Return what MPI says of the end that it makes, and its last line; None for other lines."""
    text = rows[at][2]
    invoked = _INVOKED.match(text)
    if invoked:
        on = invoked["on"]
        if not on.startswith(_WORLD):
            on += f", by its rank {invoked['rank']}"
        return _invoked(rows, at, on)
    occurred = _OCCURRED.match(text)
    if occurred:
        return _occurred(rows, at, occurred["who"] or "", occurred["call"])
    called = _CALLED.search(text)
    if called:
        return Said("MPI_Abort", f"errorcode {called['code']} on {called['on']}"), at
    abort = _ABORT.search(text)
    return _stack(rows, at, abort["what"]) if abort else None


def rank_of_mpi_error(text: str) -> int | None:
    """Return the rank in MPI_COMM_WORLD that a notice names."""
    for pattern in _RANKS:
        found = pattern.search(text)
        if found and (pattern is not _INVOKED or found["on"].startswith(_WORLD)):
            return int(found["rank"])
    return None


def _invoked(rows: Rows, at: int, on: str) -> tuple[Said, int]:
    for i in range(at + 1, min(at + 4, len(rows))):
        code = _ERRORCODE.match(rows[i][2])
        if code:
            return Said("MPI_Abort", f"errorcode {code['code']} on {on}"), i
    return Said("MPI_Abort", f"on {on}"), at


def _occurred(rows: Rows, at: int, who: str, call: str) -> tuple[Said, int]:
    name, what, on, last = "MPI error", "", "", at
    for i in range(at + 1, min(at + _MOST_ROWS, len(rows))):
        text = rows[i][2]
        if not text.startswith(f"{who}***") or _OCCURRED.match(text):
            continue
        kind, communicator = _CLASS.search(text), _ON.search(text)
        if kind:
            name, what, last = kind["name"], f"{kind['what']}, ", i
        elif communicator and not on:
            on, last = f" on {communicator['on']}", i
        elif "reported by" in text:
            last = max(last, i)
        if "MPI_ERRORS_ARE_FATAL" in text:
            break
    return Said(name, f"{what}in {call}{on}"), last


def _stack(rows: Rows, at: int, what: str) -> tuple[Said, int]:
    """Return an error of MPICH with the last line of its stack, which says what it was about."""
    last, detail = at, ""
    for i in range(at + 1, min(at + _MOST_ROWS, len(rows))):
        found = _STACK.match(rows[i][2])
        if not found:
            break
        last, detail = i, found["what"]
    words = what.removesuffix(" error stack:").rstrip(",")
    return Said("MPI error", words if detail in words else f"{words}: {detail}"), last
