"""What a process says when it ends without Python: C++, the C library, faulthandler, Open MPI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from postmortem.facts.rank_logs import ExceptionText, LogFailure, LogFrame, NativeFrame
from postmortem.facts.signature import Brief, Match
from postmortem.knowledge.messages import MPI_ENDS, briefs
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.known_lines import Found, KnownLines
from postmortem.readers.ranklogs.last_words import calm, read_like, survived
from postmortem.readers.ranklogs.mpi_errors import Rows, mpi_error, rank_of_mpi_error, said_above
from postmortem.readers.ranklogs.native_stacks import (
    frames_behind,
    gfortran_frames,
    native_frame,
    rust_frames,
)
from postmortem.readers.siginfo import signal_name
from postmortem.records import record, replace
from postmortem.text import without_folders

if TYPE_CHECKING:
    from postmortem._native import RawRegion

_FRAME = Pattern(r'^ +File "(?P<file>[^"]*)", line (?P<line>\d{1,9}) in (?P<function>.+)$')
_CAUSED = Pattern(r"^(?:Caused by| +nested task error): (?P<exception>[\w.$]+)(?:: )?(?P<what>.*)$")
_BETWEEN = ("", "Stacktrace:")
_CAUSES = ("java-uncaught", "julia-error")
_ABORTED_AT = "Aborted at"
_RECEIVED = "received by PID "
"""How the handler of absl goes on behind the signal."""
_PROCESS = Pattern(r"^\[[^\]\s]+:\d+\] ")
"""Before each line that a process of Open MPI writes when it dies."""
_UCX = Pattern(r"^\[[A-Za-z][\w.-]*:\d+(?= *:\d+:\d+\])")
"""The process before what UCX says of its end."""
_LAST = {
    "jvm-signal", "jvm-internal", "v8-fatal", "v8-uncaught", "dotnet-uncaught", "ruby-bug",
    "go-panic", "zig-panic", "apport-signal",
}  # fmt: skip
_HANDLED = "code 0x"
"""Exceptions of Windows without a name: faulthandler tells of C++'s too, which are caught."""
_EFFECT = "node-stdio"
_REPORTS = {
    "jvm-signal": ("jvm-signal", 12),
    "valgrind-signal": ("valgrind-signal", 12),
    "triton-signal": ("triton-signal", 40),
    "coredumpctl-signal": ("coredumpctl-stack", None),
    "apple-signal": ("apple-stack", None),
}
"""Reports of a crash: behind which line the innermost frame stands, and within how many."""
_HEAD_OF_DUMP = 8
"""Lines from when glog's handler ran to the signal; several processes write in turn."""
_HEAD_OF_GO = 6
"""Lines that a panic may have before the stack of its goroutine."""
_HEADS = {"py-c-stack", "jvm-frames", "coredumpctl-stack", "apple-stack"}
"""Lines right behind which the stack of an end stands that was told further above."""
_FEWEST = 2
"""Words of a line that may say why."""
_MOST_FRAMES = 200
_MOST_BETWEEN = 1000
"""Lines between why a process aborts and faulthandler's word on it: stacks of other ranks."""


def endings(
    region: RawRegion, writer: int, path: str, lines: int, known: KnownLines
) -> Iterator[LogFailure]:
    """Yield the ends that the lines of a region tell of."""
    rows = region[3]
    for i, (number, _, _) in enumerate(rows):
        end = _end(rows, i, known)
        if end is None:
            continue
        native, last = _native(rows, i, end.last, known)
        yield LogFailure(
            kind=end.kind,
            said=end.said,
            writer=writer,
            file=path,
            line=number,
            frames=end.frames,
            native=native,
            text="\n".join(row[2] for row in rows[i : last + 1]),
            before=region[4] if i == 0 else (),
            begin_line=number,
            lines_after=0 if end.is_last else lines - rows[-1][1],
            matches=known.matches(rows[i][2]),
        )


@record
class _End:
    """What one line, with those below it, says of an end."""

    kind: str
    said: ExceptionText
    last: int
    """The last row of it."""
    frames: tuple[LogFrame, ...] = ()
    is_last: bool = False
    """Nothing can catch it: what follows is the run-time's own report of it."""


def _end(rows: Rows, at: int, known: KnownLines) -> _End | None:
    found = known.of(rows[at][2])
    if not found:
        return None
    if "py-fatal" in found:
        if found["py-fatal"]["what"].startswith(_HANDLED):
            return None
        frames, last = _stack(rows, at, known)
        return _End(
            "fatal", ExceptionText("Fatal Python error", found["py-fatal"]["what"]), last, frames
        )
    if "cpp-terminate" in found:
        said, last = _terminate(rows, at, known)
        return _End("terminate", said, last)
    known_ids = briefs()
    if _EFFECT in found:
        return None
    told = [(known_ids[name], match) for name, match in found.items() if known_ids[name].ending]
    # Watchdogs quote each other: the message that begins first says the most.
    told.sort(key=lambda row: (row[0].ending != "watchdog", -len(row[1]["what"])))
    if told and told[0][0].ending == "watchdog":
        return _told(*told[0], rows, at, "")
    other = _of_several_lines(rows, at, known)
    if other is not None:
        return other
    below = rows[at + 1][2].strip() if rows[at][2].endswith(":") and at + 1 < len(rows) else ""
    return _told(*told[0], rows, at, below) if told else None


def _cause_below(rows: Rows, at: int) -> re.Match[str] | None:
    """Return what Java or Julia names last below an exception: all above came from that."""
    found = None
    for _, _, text in rows[at + 1 : at + _MOST_FRAMES]:
        caused = _CAUSED.match(text)
        if caused is None and text not in _BETWEEN and not text[:1].isspace():
            break
        found = caused or found
    return found


def _told(message: Brief, match: Match, rows: Rows, at: int, below: str) -> _End:
    """Return an end that one line tells of, or announces, as the knowledge base calls it."""
    name = match["exception"] or message.exception or message.id
    cause = _cause_below(rows, at) if message.id in _CAUSES else None
    if cause is not None:
        wrapper = ExceptionText(name, match["what"]).words
        what = f"{cause['what']} (in {wrapper})" if cause["what"] else f"in {wrapper}"
        said = ExceptionText(cause["exception"], what)
        return _End(message.ending or "fatal", said, at, is_last=True)
    if match["number"]:
        name = signal_name(int(match["number"]))
    last = at + (not match["what"] and bool(below))
    process = _UCX.match(rows[at][2])
    above = said_above(rows, at, process[0]) if process else ""
    said = ExceptionText(
        name, f"{match['what'] or below}{f'; before it: {above}' if above else ''}"
    )
    return _End(message.ending or "fatal", said, last, is_last=message.id in _LAST)


def without_echoes(failures: Iterable[LogFailure], known: KnownLines) -> Iterator[LogFailure]:
    """Yield the failures without the words of handlers on an abort() that was told of before.

    The stack that they show, and the process that they name, belong to what said why: C++'s
    terminate, a watchdog, the C library.
    """
    last: LogFailure | None = None
    for failure in failures:
        if last is not None and _is_echo(failure, last, known):
            text = f"{last.text}\n{failure.text}" if failure.text not in last.text else last.text
            frames, native = last.frames or failure.frames, last.native or failure.native
            last = replace(last, frames=frames, native=native, text=text)
            continue
        if last is not None:
            yield _with_line_above(last)
        last = failure
    if last is not None:
        yield _with_line_above(last)


def _with_line_above(failure: LogFailure) -> LogFailure:
    """Return an abort() of which a handler tells and not why, with the line above it.

    Who calls abort() says why before; what tells of work, or calls itself no error, does not.
    """
    said, above = failure.said, failure.before[-1].strip() if failure.before else ""
    told = said.exception == "SIGABRT" or said.message == "Aborted"
    if not told or said.message not in ("received", "Aborted") or len(above.split()) < _FEWEST:
        return failure
    ids = read_like([above])[0]
    if calm(ids) or survived(ids):
        return failure
    message = f"{said.message}; before it: {without_folders(above)}"
    return replace(failure, said=replace(said, message=message))


def _is_echo(failure: LogFailure, last: LogFailure, known: KnownLines) -> bool:
    said = failure.said
    told = said.message == "Aborted"
    handled = said.message == "received" or said.message.startswith(_RECEIVED)
    if not (told or handled) or failure.line - last.line > _MOST_BETWEEN:
        return False
    if told and said.exception == "Fatal Python error":
        return True
    before = process_named(last, known)
    same = before is None or before == process_named(failure, known)
    return said.exception == "SIGABRT" and same and last.kind != "exception"


def _of_several_lines(rows: Rows, at: int, known: KnownLines) -> _End | None:
    """Return what a library other than Python says of an end in more than one line."""
    found = known.of(rows[at][2])
    for name, (head, reach) in _REPORTS.items():
        if name in found:
            return _reported(found[name], rows[at : reach and at + reach], at, head, known)
    said = found.get("go-panic-said")
    if said and any("go-stack" in known.of(row[2]) for row in rows[at + 1 : at + _HEAD_OF_GO]):
        return _End("fatal", ExceptionText("Go", f"panic: {said['what']}"), at, is_last=True)
    stopped = found.get("gdb-crash")
    first = rows[at + 1][2] if stopped and at + 1 < len(rows) else ""
    first = f"#0  {first}" if first.startswith("0x") else first  # gdb numbers it in its bt only
    frame = native_frame(first) if first.startswith("#0 ") else None
    if stopped and frame is not None:
        library = (frame.module or "").rpartition("/")[2]
        place = f"{stopped['what']} in {frame.function}" + (f" ({library})" if library else "")
        return _End("fatal", ExceptionText(stopped["exception"], place), at + 1)
    panic = found.get("rust-panic")
    if panic:
        old = panic.captures.get("old")
        text = rows[at + 1][2] if at + 1 < len(rows) and old is None else ""
        message = old if old is not None else text
        return _End(
            "fatal", ExceptionText("panic", f"{message} ({panic['place']})"), at + bool(text)
        )
    mpi = mpi_error(rows, at, known)
    if mpi is not None:
        return _End("fatal", *mpi)
    dumped = found.get("glog-dumped")
    if dumped and not _told_before(rows, at, known):
        there = next((i for i in range(at, at + _HEAD_OF_DUMP) if _signal_at(rows, i, known)), at)
        return _dumped(rows, there, known.of(rows[there][2]).get("glog-dumped") or dumped, known)
    return None


def _reported(said: Match, rows: Rows, at: int, head: str, known: KnownLines) -> _End:
    """Return what a system's report of a crash tells, in rows from its signal on."""
    heads = (i for i, row in enumerate(rows) if head in known.of(row[2]))
    below = (row[2].removeprefix("# ") for row in rows[next(heads, len(rows)) :])
    frames = (frame for frame in map(native_frame, below) if frame and frame.function != "??")
    frame = next(frames, None)
    place = said["what"] if frame is None else f"in {frame.function}"
    place += f" ({frame.module})" if frame is not None and frame.module else ""
    signal = said["exception"] or signal_name(int(said["number"]))
    return _End("fatal", ExceptionText(signal, place), at, is_last=True)


def _dumped(rows: Rows, at: int, said: Match, known: KnownLines) -> _End:
    """Return what the handler of glog or absl says, and of which process, if Ray tells that."""
    word = said["what"].removesuffix(" at")
    if not said["when"]:
        return _End("fatal", ExceptionText(word, said["rest"].strip(" *;]")[:200]), at)
    for i in range(at, min(at + _MOST_FRAMES, len(rows))):
        again = known.of(rows[i][2]).get("ray-dumped")
        if again:
            return _End("fatal", ExceptionText(word, f"received by process {again['pid']}"), i)
    return _End("fatal", ExceptionText(word, "received"), at)


def _signal_at(rows: Rows, at: int, known: KnownLines) -> bool:
    dumped = known.of(rows[at][2]).get("glog-dumped") if at < len(rows) else None
    return dumped is not None and dumped["what"] != _ABORTED_AT


def _told_before(rows: Rows, at: int, known: KnownLines) -> bool:
    """Whether glog's "*** Aborted at" two lines above told of this already, or a failed check."""
    above = [known.of(row[2]) for row in rows[max(0, at - 40) : at]]
    return any(
        "glog-check" in found
        or ("glog-dumped" in found and found["glog-dumped"]["what"] == _ABORTED_AT)
        for found in above
    )


def _native(
    rows: Rows, at: int, last: int, known: KnownLines
) -> tuple[tuple[NativeFrame, ...], int]:
    """Return the native frames behind an end, and the last of its lines."""
    found = known.of(rows[at][2])
    if "rust-panic" in found:
        below = range(at, min(at + 4, len(rows)))
        head = next((i for i in below if "rust-backtrace" in known.of(rows[i][2])), -1)
        return ((), last) if head < 0 else (rust_frames([row[2] for row in rows[head + 1 :]]), last)
    if "gdb-signal" in found:
        frames, rows_of_it = gfortran_frames([row[2] for row in rows[at + 1 :]])
        return frames, at + rows_of_it
    process = _PROCESS.match(rows[at][2])
    if process:  # several write in turn
        mine = [i for i in range(last + 1, len(rows)) if rows[i][2].startswith(process[0])]
        begin, end = frames_behind([rows[i] for i in mine], 0)
        own = [native_frame(rows[i][2]) for i in mine[begin:end]]
        return tuple(one for one in own if one), mine[end - 1] if begin < end else last
    begin, end = frames_behind(rows, last + 1)
    heads = (i for i in range(at, len(rows)) if known.of(rows[i][2]).keys() & _HEADS)
    c_stack = next(heads, -1)
    if c_stack >= 0:
        begin, end = frames_behind(rows, c_stack + 1, 1)
    frames = tuple(frame for row in rows[begin:end] if (frame := native_frame(row[2])) is not None)
    return frames, max(last, end - 1) if frames else last


def _terminate(rows: Rows, at: int, known: KnownLines) -> tuple[ExceptionText, int]:
    found = known.of(rows[at][2])
    thrown = found.get("terminate-throw")
    if not thrown:
        return ExceptionText("std::terminate", found["cpp-terminate"]["what"].strip()), at
    below = at + 1
    while below < len(rows) and rows[below][2] == rows[at][2]:
        below += 1  # processes that end at once write between each other's lines
    what = known.of(rows[below][2]).get("cpp-what") if below < len(rows) else None
    said = what["what"].strip() if what else ""
    message = "" if said == thrown["type"] else said  # what() of the standard's own classes
    return ExceptionText(thrown["type"], message), below if what else at


def _stack(rows: Rows, at: int, known: KnownLines) -> tuple[tuple[LogFrame, ...], int]:
    """Return the frames of faulthandler's current thread, the outermost first."""
    frames: list[LogFrame] = []
    current = False
    last = at
    for i in range(at + 1, len(rows)):
        text = rows[i][2]
        found = known.of(text)
        if "py-current-thread" in found or "py-c-stack" in found:
            current, last = True, i
        elif text.startswith("Thread 0x"):
            if current:
                break
        elif current:
            frame = _FRAME.match(text)
            if not frame or len(frames) >= _MOST_FRAMES:
                break
            frames.append(LogFrame(frame["file"], int(frame["line"]), frame["function"]))
            last = i
    return tuple(reversed(frames)), last


_OF_PROCESS = (
    "mpi-handler",
    "mpi-signal",
    "mpi-error",
    "ucx-signal",
    "ucx-transport",
    "ray-dumped",
)
"""Messages whose lines name the process that they are of."""


def process_named(failure: LogFailure, known: KnownLines) -> tuple[int, str | None] | None:
    """Return the process, and its host, that a line says it is of: ``[node1:04711] ``."""
    lines = map(known.of, failure.text.split("\n"))
    told = (found[name] for found in lines for name in _OF_PROCESS if name in found)
    named = next((match for match in told if match["pid"]), None)
    return (int(named["pid"]), named["host"] or None) if named is not None else None


def _of_some(found: Found) -> bool:
    """Return whether a line is of a group of some ranks, which counts its own from 0."""
    group = found.get("pgnccl-group")
    return group is not None and group["group"] != "0"


def rank_named(failure: LogFailure, known: KnownLines) -> int | None:
    """Return the rank that a line says it is of: ``[PG ID 0 … Rank 3]``, ``RankID:3)``."""
    known_ids = briefs()
    for match in failure.matches:
        if known_ids[match.id].ending == "fatal" and match.captures.get("rank"):
            return int(match["rank"][:9])
    if failure.match(*MPI_ENDS):
        return rank_of_mpi_error(failure.text, known)
    if failure.kind not in ("terminate", "watchdog", "exception"):
        return None
    name = "cann-rank" if failure.kind == "exception" else "pgnccl-rank"
    lines = map(known.of, failure.text.split("\n"))
    found = next((one[name] for one in lines if name in one and not _of_some(one)), None)
    return int(found["rank"][:9]) if found else None
