"""What MPI libraries write when they end a job: MPI_Abort, and calls whose errors are fatal."""

from collections.abc import Sequence

from postmortem.facts.rank_logs import ExceptionText
from postmortem.facts.signature import Match
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.known_lines import KnownLines

Rows = Sequence[tuple[int, int, str]]

_MOST_ROWS = 10
"""Lines that one notice may have, others' between them."""

# Below an error of MPICH: a call of its stack, whatever its name.
_STACK = Pattern(r"^(?:\w+|\(unknown\))\(\d*\)\.*:(?: (?P<what>.*))?$")
# What a library below calls an error, with the process in brackets: UCX, components of Open MPI.
_BELOW = Pattern(r"\] +\S+:\d+ +(?:[A-Z]+ +ERROR|Error:) +(?P<what>\S.*)$")
_NAMES_RANK = (
    "mpi-error-reported",
    "mpi-abort-invoked",
    "mpich-rank",
    "mpich-abort",
    "mpich-abort-process",
)
"""Messages that name a rank, those first that surely mean the one in MPI_COMM_WORLD."""


def mpi_error(rows: Rows, at: int, known: KnownLines) -> tuple[ExceptionText, int] | None:
    """Return what MPI says of the end that it makes, and its last line; None for other lines."""
    found = known.of(rows[at][2])
    invoked = found.get("mpi-abort-invoked")
    if invoked:
        on = invoked["world"] or f"{invoked['on']}, by its rank {invoked['rank']}"
        return _invoked(rows, at, on, known)
    occurred = found.get("mpi-error")
    if occurred:
        return _occurred(rows, at, occurred, known)
    called = found.get("mpich-abort-called")
    if called:
        return ExceptionText("MPI_Abort", f"errorcode {called['code']} on {called['on']}"), at
    abort = found.get("mpich-abort") or found.get("mpich-fatal")
    return _stack(rows, at, abort["what"]) if abort else None


def rank_of_mpi_error(text: str, known: KnownLines) -> int | None:
    """Return the rank in MPI_COMM_WORLD that a notice names."""
    lines = [known.of(line) for line in text.split("\n")]
    for name in _NAMES_RANK:
        for found in lines:
            if name not in found or not found[name]["rank"]:
                continue
            if name != "mpi-abort-invoked" or found[name]["world"]:
                return int(found[name]["rank"])
            break
    return None


def _invoked(rows: Rows, at: int, on: str, known: KnownLines) -> tuple[ExceptionText, int]:
    for i in range(at + 1, min(at + 4, len(rows))):
        code = known.of(rows[i][2]).get("mpi-abort-code")
        if code:
            return ExceptionText("MPI_Abort", f"errorcode {code['code']} on {on}"), i
    return ExceptionText("MPI_Abort", f"on {on}"), at


def _occurred(rows: Rows, at: int, first: Match, known: KnownLines) -> tuple[ExceptionText, int]:
    name, what, on, last = "MPI error", "", "", at
    for i in range(at + 1, min(at + _MOST_ROWS, len(rows))):
        text = rows[i][2]
        found = known.of(text)
        if not text.startswith(f"{first['who']}***") or "mpi-error" in found:
            continue
        kind, communicator = found.get("mpi-error-class"), found.get("mpi-error-on")
        if kind:
            name, what, last = kind["name"], f"{kind['what']}, ", i
        elif communicator and not on:
            on, last = f" on {communicator['on']}", i
        elif "mpi-error-reported" in found:
            last = max(last, i)
        if "mpi-errors-fatal" in found:
            break
    why = said_above(rows, at, first["who"].rstrip("] "))
    what = f"{f'{why}; ' if why else ''}{what}in {first['call']}{on}"
    return ExceptionText(name, what), last


def said_above(rows: Rows, at: int, own: str) -> str:
    """Return what a library said first of its errors, right above, in its `own` process."""
    why = ""
    for _, _, text in reversed(rows[max(0, at - _MOST_ROWS) : at]):
        found = _BELOW.search(text) if own and own in text else None
        if not found:
            break
        why = found["what"]
    return why


def _stack(rows: Rows, at: int, what: str) -> tuple[ExceptionText, int]:
    """Return an error of MPICH with the last line of its stack, which says what it was about."""
    last, detail = at, ""
    for i in range(at + 1, min(at + _MOST_ROWS, len(rows))):
        found = _STACK.match(rows[i][2])
        if not found:
            break
        last, detail = i, (found["what"] or "").strip() or detail
    words = what.removesuffix(" error stack:").rstrip(",")
    return ExceptionText("MPI error", words if detail in words else f"{words}: {detail}"), last
