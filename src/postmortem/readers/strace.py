"""strace logs to facts: what was asked for, and what the log tells beside it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem import _native
from postmortem.errors import EvidenceError
from postmortem.facts.call_query import CallQuery
from postmortem.facts.source import Problem, Source
from postmortem.facts.syscalls import SystemCalls
from postmortem.patterns import Pattern
from postmortem.readers.log_files import OpenedLog, Watch
from postmortem.readers.strace_sweep import beginning, lines_without
from postmortem.readers.stracefind import (
    TABLE_ALONE,
    LogGroup,
    find_logs,
    is_ltrace,
    likeness,
    speaks,
)
from postmortem.readers.stracerows import calls_of
from postmortem.records import record, replace
from postmortem.text import counted

if TYPE_CHECKING:
    from postmortem._native import RawQuery, RawStrace

MOST_MATCHES = 5000
"""Hits that are kept with all they have; more are only counted."""

MOST_OF_ONE = 400
"""Hits with one errno of one call that are kept when many are asked for at once."""

_MOST_THREADS = 4

_NO_CHARACTER = Pattern(r"\\udc([89a-f][0-9a-f])")
"""A byte that is no UTF-8, as repr() shows it."""


@record
class Question:
    """What to look for in a log."""

    queries: tuple[CallQuery, ...] = ()
    signals: tuple[str, ...] = ()
    statistics: bool = False
    """Count every call, error and byte: the whole log is parsed."""
    infer_sigbus: bool = False
    process: int | None = None
    """Hits and totals of this process and its threads alone."""
    hits_only: bool = False
    """Nothing else is told: a large log that has none need not be parsed to its end."""


@record
class StraceFacts:
    """One recording as read."""

    calls: SystemCalls
    sources: tuple[Source, ...]
    problems: tuple[Problem, ...]


@record
class Beside:
    """What else is done in the same pass over a log."""

    exports: tuple[object, ...] = ()
    """Of `postmortem.readers.strace_exports`."""
    label: str = ""
    """What the exports call this recording, where there are several."""
    learn: Callable[[list[str]], object] | None = None
    """Is told of command lines, so that the exports mask what is secret in them."""
    watch: Watch | None = None


NOTHING = Beside()


def read_recordings(
    names: Sequence[str], question: Question, beside: Beside = NOTHING
) -> list[StraceFacts]:
    """Return the facts of each recording; raises EvidenceError when none is an strace log.

    Where there are several, what is exported says of which one it is.
    """
    lost: list[EvidenceError] = []
    groups = find_logs(names, lost)
    read: list[StraceFacts] = []
    for group in groups:
        label = Path(group.name).name if len(groups) > 1 else beside.label
        try:
            read.append(read_strace(group, question, replace(beside, label=label)))
        except EvidenceError as error:
            lost.append(error)
    if not read:
        raise lost[0]
    only = question.process
    if only is not None and not any(one.calls.of_process(only).tasks for one in read):
        there = ", ".join(str(task.pid) for task in read[0].calls.tasks[:10])
        what = f"holds no call of process {only}"
        raise EvidenceError(", ".join(names), what, hint=f"its processes: {there}")
    problems = (Problem(one.where, one.what, one.hint) for one in lost)
    return [replace(read[0], problems=(*read[0].problems, *problems)), *read[1:]]


def read_strace(group: LogGroup, question: Question, beside: Beside = NOTHING) -> StraceFacts:
    """Return the facts of one recording; raises EvidenceError when it is not an strace log."""
    with contextlib.ExitStack() as stack:
        opened = [OpenedLog(name, stack, beside.watch) for name, _ in group.files]
        if all(log.is_hole for log in opened):
            raise EvidenceError(group.name, "is not an strace log: nothing was ever written to it")
        threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
        lines = None if beside.exports else _lines_without(question, opened, threads)
        pulls = [log.source if lines is None else beginning(log) for log in opened]
        try:
            raw = _native.read_strace(
                [(pull, pid) for pull, (_, pid) in zip(pulls, group.files, strict=True)],
                queries=[_raw(query) for query in question.queries],
                signals=list(question.signals),
                statistics=question.statistics,
                infer_sigbus=question.infer_sigbus,
                threads=threads,
                most_matches=MOST_MATCHES,
                most_of_one=MOST_OF_ONE if question.statistics else MOST_MATCHES,
                only=question.process or 0,
                exports=list(beside.exports),
                label=os.fsencode(beside.label),
                learn=beside.learn,
                names=[os.fsencode(name) for name, _ in group.files],
            )
        except EvidenceError as error:
            raise EvidenceError(group.name, error.what, hint=error.hint) from error
    _require_log(group, raw, opened)
    if lines is not None:
        return _searched(group, raw, opened[0], lines)
    problems = [problem for log in opened for problem in log.problems]
    problems += _remarks(group, raw)
    for log, size in zip(opened, raw["bytes"], strict=True):
        problems += log.shrunk(size)
    sources = tuple(log.as_source(size) for log, size in zip(opened, raw["bytes"], strict=True))
    head = opened[0].head if opened else b""
    return StraceFacts(calls_of(group, raw, head), sources, tuple(problems))


def _lines_without(question: Question, opened: list[OpenedLog], threads: int) -> int | None:
    if not question.hits_only or question.signals or len(opened) != 1:
        return None
    return lines_without(opened[0], question.queries, threads)


def _searched(group: LogGroup, raw: RawStrace, log: OpenedLog, lines: int) -> StraceFacts:
    """Return the facts of a log without hits, whose tasks are not known."""
    calls = calls_of(group, raw, log.head)
    recording = replace(calls.recording, lines=lines, searched=True)
    source = log.as_source(log.plain_size or 0)
    return StraceFacts(replace(calls, tasks=(), recording=recording), (source,), ())


def _require_log(group: LogGroup, raw: RawStrace, opened: list[OpenedLog]) -> None:
    counts = raw["counts"]
    found = counts["calls"] + counts["signals"] + counts["exits"]
    if counts["summary"] and not found:
        raise EvidenceError(group.name, TABLE_ALONE, hint="record without -c, or with -C for both")
    head = next((log.head for log in opened if log.head), b"")
    understood = found and not is_ltrace(head)
    read = 2 * found + counts["remarks"] + counts["output"]
    if understood and (read >= counts["unparsed"] or speaks(head)):
        return
    what = f"is not an strace log: it looks like {likeness(head)}"
    if not head:
        what = (
            "is empty: strace wrote nothing, or was not started; or what it was attached to (-p) "
            "made no call all the while, as a busy loop does"
        )
    raise EvidenceError(group.name, what, hint="record one: strace -f -o strace.txt COMMAND")


def _remarks(group: LogGroup, raw: RawStrace) -> Iterator[Problem]:
    counts = raw["counts"]
    if counts["unparsed"]:
        where = f"{group.files[raw['first_unparsed_file']][0]}:{raw['first_unparsed_line']}"
        what = f"{counts['unparsed']:,} of {counts['lines']:,} lines not understood"
        text = (raw["first_unparsed"] or "")[:80]
        shown = _NO_CHARACTER.sub(r"\\x\1", repr(text))
        yield Problem(where, f"{what}; the first: {shown}" if text else what)
    if raw["cut_lines"]:
        count = counted(raw["cut_lines"], "line")
        yield Problem(group.name, f"{count} over 32 MiB read in part: the rest is not known")
    if raw["forgotten"]:
        what = (
            f"{counted(raw['forgotten'], 'process', 'processes')} that ended with 0 left out: "
            "there are too many"
        )
        yield Problem(group.name, what)
    if raw["unlisted"]:
        what = f"{raw['unlisted']:,} of its processes left out: there are too many"
        yield Problem(group.name, what)
    if raw["match_count"] > len(raw["matches"]) and not raw["syscalls"]:
        what = f"{raw['match_count']:,} hits; the first {len(raw['matches']):,} are listed"
        yield Problem(group.name, what)
    if raw["check"]["wrong"]:
        what = (
            f"{raw['check']['wrong']} descriptors are annotated (-y) otherwise than earlier calls "
            f"say: {raw['check']['examples'][0]}; the annotation is used"
        )
        yield Problem(group.name, what)
    if len(group.files) > 1 and not raw["by_time"]:
        what = "files of strace -ff without times: what threads share may be out of order"
        yield Problem(group.name, what, "record with -ff -ttt, or with -f into one file")


def _raw(query: CallQuery) -> RawQuery:
    return {
        "errors": list(query.errors),
        "calls": list(query.calls),
        "pid": query.pid,
        "fd": query.fd,
        "path": query.path,
        "slower": round(query.slower * 1e9),
    }
