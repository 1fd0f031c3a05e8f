"""Exceptions of which a log has the last line alone: their frames went elsewhere, or nowhere."""

from collections.abc import Iterable, Sequence

from postmortem.facts.exits import LogExit
from postmortem.facts.last_lines import LastLines
from postmortem.facts.rank_logs import ExceptionText, LogFailure, Writer
from postmortem.readers.ranklogs.lines import shape_of, surely_exception


def lone_exceptions(
    last: Iterable[LastLines],
    writers: Sequence[Writer],
    exits: Iterable[LogExit],
    failures: Iterable[LogFailure],
) -> list[LogFailure]:
    """Return those with which ranks end whose launcher gives an exit code.

    Who wrote one of the `failures` has told already.
    """
    found, failed = [], {one.writer for one in failures}
    ended = {end.rank for end in exits if end.code} - {None}
    for one in last:
        if one.writer in failed or writers[one.writer].rank not in ended or not one.plain:
            continue
        at = one.errors[0]
        line = shape_of(at.line, 0, at.text)
        if line.exception is not None and surely_exception(line):
            said = ExceptionText(line.exception, line.message)
            text, where = at.text, (at.file, at.line)
            told = LogFailure("exception", said, one.writer, *where, text=text, begin_line=at.line)
            found.append(told)
    return found
