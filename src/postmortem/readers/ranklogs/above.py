"""What stands right above a launcher's word on a process whose lines carry no name."""

from collections.abc import Collection, Sequence
from typing import BinaryIO

from postmortem import _native
from postmortem.facts.last_lines import LastLine
from postmortem.facts.rank_logs import LogExit, LogFailure
from postmortem.readers.formats import HEAD_BYTES, compression_of
from postmortem.readers.ranklogs.last_words import calm, works, wrong
from postmortem.readers.ranklogs.lines import Shape, looks_like_log, shape_of
from postmortem.readers.regular import open_regular
from postmortem.readers.signatures import Signatures
from postmortem.records import replace
from postmortem.underway import Refused

_MOST_BYTES = 256 << 20
"""Of a log that is read again, up to the line."""
_BLOCK = 1 << 20
_MOST_READ = 48
"""Lines above the word: a launcher's own may be most of them."""
_MOST_LINES = 6
_OWN = "last-launcher"
_OF_TRACEBACK = (Shape.HEAD, Shape.FRAME)
_TABLES = ("Slurm", "kubernetes")
"""What was asked how a job had ended: no line of the job stands above it."""


def with_above(
    exits: tuple[LogExit, ...], failures: Sequence[LogFailure], named: Collection[int | None]
) -> tuple[LogExit, ...]:
    """Return ends, the first bad ones of each file with the lines right above them.

    Only where a launcher tells of who is not `named` before its lines, and no failure stands
    above: then an error in words that nobody knows may be its own. A signal leaves no time for one.
    """
    first: dict[str, int] = {}
    for end in exits:
        nameless = end.rank is None or end.rank not in named
        left = end.code != 0 and end.signal is None and end.launcher not in _TABLES
        if left and nameless and not end.stopped:
            first[end.file] = min(end.line, first.get(end.file, end.line))
    for failure in failures:
        if failure.begin_line < first.get(failure.file, 0):
            del first[failure.file]
    rows = {file: _rows_above(file, line) for file, line in first.items()}
    return tuple(
        replace(end, above=rows[end.file]) if first.get(end.file) == end.line else end
        for end in exits
    )


def _rows_above(path: str, line: int) -> tuple[LastLine, ...]:
    """Return the lines above one that are not the launcher's, the telling ones first."""
    try:
        with open_regular(path) as stream:
            if compression_of(stream.read(HEAD_BYTES)) is not None:
                return ()
            lines = _lines_before(stream, line)
    except (OSError, Refused):
        return ()
    above = line - len(lines)
    rows = _nameless(lines)
    known = Signatures.load("last line").matches(text for _, text in rows)
    found: dict[str, tuple[bool, LastLine]] = {}
    for (number, text), row in zip(reversed(rows), reversed(known), strict=True):
        ids = [match.id for match in row]
        if shape_of(number, number, text).shape in _OF_TRACEBACK:  # the launcher's own
            found = {said: one for said, one in found.items() if not said[:1].isspace()}
        elif _OWN not in ids:
            error = bool(wrong(ids))
            if not error and (looks_like_log(text) or works(ids) or calm(ids)):
                break
            found.setdefault(text, (error, LastLine(text.strip(), path, above + number - 1)))
    rows_found = [*found.values()][:_MOST_LINES]
    # Of several errors the first; else the line that stands nearest.
    rows_found.sort(key=lambda row: (not row[0], row[1].line if row[0] else -row[1].line))
    return tuple(one for _, one in rows_found)


def _lines_before(stream: BinaryIO, line: int) -> list[bytes]:
    """Return the lines above one, without their ends; none where it stands too far below."""
    stream.seek(0)
    wanted, above, kept = line - 1, 0, b""
    while above < wanted and stream.tell() < _MOST_BYTES and (block := stream.read(_BLOCK)):
        above += block.count(b"\n")
        kept = kept[-_BLOCK:] + block
    lines = kept.split(b"\n")
    lines = lines[: len(lines) - 1 - (above - wanted)]
    return lines[-_MOST_READ:] if above >= wanted else []


def _nameless(lines: list[bytes]) -> list[tuple[int, str]]:
    """Return the last of the lines that no prefix gives to anybody, with their numbers."""
    pieces = iter((b"\n".join(lines),))
    tail = _native.read_ranklog(lambda: next(pieces, b""), [])["labels"][0]["tail"]
    return [(number, text) for number, text, *_ in tail]
