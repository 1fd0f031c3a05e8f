"""Large logs without a word of what is asked for: searched, and parsed at their beginning."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from postmortem import _native
from postmortem.facts.syscalls import NO_ROOM
from postmortem.readers.child_limits import available_memory
from postmortem.readers.stracefind import starts_with_exec

if TYPE_CHECKING:
    from postmortem.facts.call_query import CallQuery
    from postmortem.readers.log_files import OpenedLog

WORTH_BYTES = 256 << 20
"""Below this all of a log is parsed in a tenth of a second, and the answer tells more."""

_HEAD_BYTES = 1 << 20

# What failed through a ring no call returns, and the answer says so.
_IO_URING = "io_uring_"


def lines_without(log: OpenedLog, queries: Sequence[CallQuery], threads: int) -> int | None:
    """Return how many lines a log has in which no failure that is asked for can be.

    None where one may be, and where it has to be read to know: a packed log, a stream, one of less
    than `WORTH_BYTES`, or one that does not fit into memory, which would be fetched twice.
    """
    size = log.plain_size
    words = words_of(queries)
    if size is None or words is None or size < WORTH_BYTES or size > available_memory() // 2:
        return None
    assert isinstance(log.source, int)
    from_start = starts_with_exec(log.head)
    absent, lines = _native.sweep_log(log.source, size, words, threads, from_start)
    return lines if absent else None


def beginning(log: OpenedLog) -> Callable[[], bytes]:
    """Return what gives the first lines of a log, as a source of the native reader."""
    assert isinstance(log.source, int)
    head = os.pread(log.source, _HEAD_BYTES, 0)
    pieces = iter([head[: head.rfind(b"\n") + 1]])
    return lambda: next(pieces, b"")


def words_of(queries: Sequence[CallQuery]) -> list[str] | None:
    """Return words of which one stands in every log with a hit; None where there are no such."""
    if not queries or not all(query.errors for query in queries):
        return None
    names = dict.fromkeys(name for query in queries for name in query.errors)
    # libaio tells a failure by its number alone: `io_getevents(…, [{…, res=-28, …}], …)`.
    numbers = [f"res=-{number}" for name in names if (number := getattr(errno, name, None))]
    # CPython asks for the handler of every signal: the name alone is in nearly all logs.
    signals = ["--- SIGBUS"] if NO_ROOM.intersection(names) else []
    return [*names, *numbers, *signals, _IO_URING]
