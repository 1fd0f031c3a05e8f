"""What stands right above a launcher's word on a process whose lines carry no name."""

from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from postmortem.facts.last_lines import LastLine
from postmortem.facts.rank_logs import LogExit, LogFailure
from postmortem.patterns import Pattern
from postmortem.readers.formats import HEAD_BYTES, compression_of
from postmortem.readers.ranklogs.last_words import calm, works
from postmortem.readers.ranklogs.lines import looks_like_log
from postmortem.readers.regular import open_regular
from postmortem.readers.signatures import Signatures
from postmortem.records import replace
from postmortem.underway import Refused

_MOST_BYTES = 256 << 20
"""Of a log that is read again."""
_MOST_LINES = 6
_LONGEST_LINE = 4096
_LAUNCHERS = Pattern(r"^(?:srun|slurmstepd): ")


def with_above(
    exits: tuple[LogExit, ...], failures: Sequence[LogFailure], named: Collection[int | None]
) -> tuple[LogExit, ...]:
    """Return ends, the first bad ones of each file with the lines right above them.

    Only where srun tells of ranks that are not `named` before their lines, and no failure stands
    above: then an error in words that nobody knows may be theirs.
    """
    first: dict[str, int] = {}
    for end in exits:
        silent = end.rank is not None and end.rank not in named
        if end.launcher == "srun" and end.code and silent and not end.stopped:
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
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            return ()
        with open_regular(path) as stream:
            if compression_of(stream.read(HEAD_BYTES)) is not None:
                return ()
            stream.seek(0)
            begin = max(line - 1 - _MOST_LINES, 0)
            lines = [*islice(stream, begin, line - 1)]
    except (OSError, Refused):
        return ()
    texts = [row[:_LONGEST_LINE].decode("utf-8", "replace").strip() for row in lines]
    known = Signatures.load("last line").matches(texts)
    found: list[LastLine] = []
    for number, text, row in zip(
        range(line - 1, begin, -1), reversed(texts), known[::-1], strict=True
    ):
        if _LAUNCHERS.match(text) or not text:
            continue
        ids = [match.id for match in row]
        if looks_like_log(text) or works(ids) or calm(ids):
            break
        found.append(LastLine(text, path, number))
    return tuple(reversed(found))
