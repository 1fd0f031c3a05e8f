"""Files of one job to `RankLogs`."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from postmortem import _native
from postmortem.errors import EvidenceError
from postmortem.facts.last_lines import EarlierRuns, LastLine, LogExcerpt
from postmortem.facts.rank_logs import RankLogs
from postmortem.facts.source import Problem, Source
from postmortem.facts.versions import LibraryVersion, Versions
from postmortem.readers.formats import ELF_MAGIC
from postmortem.readers.log_files import OpenedLog
from postmortem.readers.log_heads import in_utf_8
from postmortem.readers.notebooks import MOST_BYTES as NOTEBOOK_BYTES
from postmortem.readers.notebooks import is_notebook, outputs_of
from postmortem.readers.ranklogs.apple_reports import is_apple_report, report_told
from postmortem.readers.ranklogs.around import lines_around
from postmortem.readers.ranklogs.build_facts import FactBuilder, ReadLog
from postmortem.readers.ranklogs.ci_steps import FailedStep, failed_step
from postmortem.readers.ranklogs.collected import entries_of, is_list
from postmortem.readers.ranklogs.job_records import code_told, may_hold_records, records_told
from postmortem.readers.ranklogs.known_lines import keep_literals
from postmortem.readers.ranklogs.later_runs import MOST_BYTES, last_run
from postmortem.readers.ranklogs.log_names import LogFile
from postmortem.readers.ranklogs.named_runs import failed_run
from postmortem.readers.ranklogs.odd_version import odd_version
from postmortem.readers.ranklogs.own_losses import losses_of_ranks
from postmortem.readers.ranklogs.passed_tests import without_passed
from postmortem.readers.ranklogs.pauses import with_pauses
from postmortem.readers.ranklogs.pids import said_pids
from postmortem.readers.ranklogs.pods import described, is_pods
from postmortem.readers.ranklogs.sources import Found
from postmortem.readers.ranklogs.user_logs import UserLog, has_events
from postmortem.readers.ranklogs.windows import is_broken, joined_lines
from postmortem.readers.ranklogs.world import in_head
from postmortem.readers.ranklogs.wrapped import layers, unwrapped
from postmortem.readers.regular import size_of, unread
from postmortem.readers.versions import joined, versions_in
from postmortem.records import record, replace
from postmortem.text import counted

if TYPE_CHECKING:
    from postmortem._native import RawRankLog


_HOLE = 8
_PIECE = 1 << 20
_LONGEST_ERROR = 160
_DOCUMENTS = (
    (is_apple_report, report_told),
    (is_list, entries_of),
    (is_pods, described),
    (may_hold_records, records_told),
)
"""By its head, what tells a document as the lines of a log."""
_PID = re.compile(rb"(?i)\bpid\b\W{0,3}(\d{2,10})\b")
_MOST_PIDS = 10_000
_MOST_COMPARED = 64
"""Logs of ranks of which the versions in their heads are compared."""
_MOST_HEADS = 8
"""Logs whose first 64 KiB are searched for versions: the ranks of a job run the same."""


@record
class RankFacts:
    """The facts, the files and what could not be read of them."""

    logs: RankLogs
    sources: tuple[Source, ...]
    problems: tuple[Problem, ...]
    forms: tuple[str, ...]
    """Names of the prefix forms that were voted for."""
    labels: dict[str, tuple[int, ...]]
    """Of each file, which writer each of its labels is."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Files of folders that were not read, each with the reason."""
    versions: Versions = Versions()
    """What the heads of the logs and NCCL's lines say of libraries."""
    read: tuple[ReadLog, ...] = ()

    def around(self, where: str) -> LogExcerpt | None:
        """Return the line at ``FILE:LINE`` with its neighbours, if it was kept."""
        return lines_around(self.read, where)


def read_rank_logs(found: Found, *, world: int | None = None) -> RankFacts:
    """Return what the logs of one job say; raises EvidenceError if none of them is a log."""
    problems: list[Problem] = list(found.problems)
    sources: list[Source] = []
    read: list[ReadLog] = []
    told: list[Versions] = []
    heads: dict[str, bytes] = {}
    for file in found.logs:
        try:
            one = _read_one(file, sources, problems, told, heads)
        except EvidenceError as error:
            problems.append(Problem(error.where, error.what, error.hint))
            continue
        except OSError as error:
            problems.append(Problem(file.path, unread(error)))
            continue
        if one is not None:
            read.append(one)
    others = found.errors or found.dumps or found.recorders or found.flights or found.kernel_logs
    if not read and not others:
        first = problems[0] if problems else Problem("logs", "nothing could be read")
        raise EvidenceError(first.where, first.what, hint=first.remedy)
    if not any(one.raw["lines"] for one in read) and not others:
        raise EvidenceError(found.logs[0].path, "is empty", hint="nothing was written to it")
    builder = FactBuilder(_of_their_ranks([*map(_as_it_says, read)]), found)
    logs = builder.logs(world)
    ranks = {one.rank: one.source for one in logs.writers if one.rank is not None}
    of = Counter(ranks.values())
    own = {
        rank: (source, heads[source])
        for rank, source in ranks.items()
        if source in heads
        and of[source] == 1  # a file of several ranks begins with anybody's lines
    }
    losses = tuple(losses_of_ranks(logs))
    odd = odd_version(own)
    pids = tuple(said_pids(read, logs))
    logs = replace(with_pauses(logs), odd_version=odd, losses=losses, unread=found.unread)
    logs = replace(logs, said_pids=pids, run=failed_run(logs))
    sources += [Source(file.path, _size(file.path)) for file in found.errors]
    forms = sorted({name for one in read for name in one.raw["grammar"]})
    return RankFacts(
        logs,
        tuple(sources),
        tuple(problems),
        tuple(forms),
        builder.labels(),
        found.left_out,
        joined([*told, _of_nccl(logs)]),
        tuple(read),
    )


def _as_it_says(log: ReadLog) -> ReadLog:
    """Return a log, without the rank of its name where its own lines are of another one.

    Operators of training jobs count workers behind a master.
    """
    said = {label["rank"] for label in log.raw["labels"]} - {None}
    other = log.file.rank is not None and len(said) == 1 and log.file.rank not in said
    return replace(log, file=replace(log.file, rank=None)) if other else log


def _of_their_ranks(read: list[ReadLog]) -> list[ReadLog]:
    """Return logs, of several files whose heads name a rank each with those.

    No two may name one; files that name none are of others: launchers, schedulers. What gdb tells
    of a crash is of the rank that says it is that process.
    """
    own = {
        pid: one.file.rank if rank is None else rank
        for one in read
        for rank, pid, _ in one.head.pids
    }
    read = [
        replace(one, file=replace(one.file, rank=own.get(one.file.crashed, one.file.rank)))
        if one.file.crashed is not None
        else one
        for one in read
    ]
    named = {
        one.file.path: one.head
        for one in read
        if one.file.rank is None and one.head.rank is not None
    }
    known = [one.file.rank for one in read if one.file.rank is not None]
    ranks = {head.rank for head in named.values()}.union(known)
    of_one_job = len({head.size for head in named.values()}) == 1
    if len(named) < 2 or len(ranks) < len(named) + len(set(known)) or not of_one_job:
        return read
    return [
        replace(one, file=replace(one.file, rank=named[one.file.path].rank))
        if one.file.path in named
        else one
        for one in read
    ]


def _of_nccl(logs: RankLogs) -> Versions:
    known = logs.nccl.versions if logs.nccl is not None else ()
    return Versions(tuple(LibraryVersion("nccl", one, "NCCL's own line") for one in known))


def _size(path: str) -> int:
    try:
        return size_of(path)
    except OSError:
        return 0


def _read_one(
    file: LogFile,
    sources: list[Source],
    problems: list[Problem],
    told: list[Versions],
    heads: dict[str, bytes],
) -> ReadLog | None:
    with contextlib.ExitStack() as stack:
        opened = OpenedLog(file.path, stack)
        program = opened.head.startswith(ELF_MAGIC)
        events = None
        source_of: int | Callable[[], bytes] | None
        source_of, earlier = _outputs(opened, problems)
        if source_of is None:
            source_of, events = _without_events(opened)
            if events is None:
                source_of, earlier = _of_last_run(opened, source_of, problems)
        raw = _native.read_ranklog(source_of, keep_literals())
        problems += opened.problems
        problems += opened.shrunk(raw["bytes"]) if source_of is opened.source else []
        problems += events.problems if events else ()
        source = opened.as_source(raw["bytes"])
        if len(told) < _MOST_HEADS:
            head = opened.head.decode("utf-8", "replace")
            told.append(versions_in(head, os.path.basename(file.path)))  # noqa: PTH119
        if len(heads) < _MOST_COMPARED:
            heads[file.path] = opened.head
    if program:
        what = "is not text: it begins as programs, libraries and cores do"
        problems.append(Problem(file.path, what, "a core is for postmortem core"))
        return None
    if raw["binary_lines"] * 2 > raw["lines"]:
        what = f"is not text: {raw['binary_lines']:,} of {raw['lines']:,} lines are binary"
        problems.append(Problem(file.path, what, "name the logs; cores are for postmortem core"))
        return None
    sources.append(source)
    problems += _remarks(file.path, raw)
    return ReadLog(file, raw, earlier, in_head(opened.head), events.jobs if events else ())


def _outputs(
    opened: OpenedLog, problems: list[Problem]
) -> tuple[Callable[[], bytes] | None, EarlierRuns]:
    """Return what a notebook, or another document, holds, in place of its text; else None."""
    none = EarlierRuns()
    code = code_told(opened.name, opened.head)
    if code is not None:
        return partial(next, iter((code,)), b""), none
    notebook = is_notebook(opened.head)
    readers = [told for looks, told in _DOCUMENTS if not notebook and looks(opened.head)]
    if not (readers or notebook) or not isinstance(opened.source, int):
        return None, none
    size = opened.plain_size or 0
    data = os.pread(opened.source, size, 0) if size <= NOTEBOOK_BYTES else b""
    if readers:
        entries = next(filter(None, (told(data) for told in readers)), None)
        return (partial(next, iter((entries,)), b"") if entries else None), none
    printed = outputs_of(data)
    if printed is None:
        what = "is a notebook that is not whole, or too large: it was read as text"
        problems.append(Problem(opened.name, what, "save it again, with its outputs"))
        return None, none
    text, cells, effect = printed
    if effect:
        what = (
            f"an error of a cell was left out, a cell failed that defines what it lacks: {effect}"
        )
        problems.append(Problem(opened.name, what))
    if cells:
        count = len(cells)
        errors = "1 error of a cell was" if count == 1 else f"{count:,} errors of cells were"
        it = "it" if count == 1 else "them"
        what = f"{errors} left out, other cells ran after {it}: {cells[-1].error[:_LONGEST_ERROR]}"
        problems.append(Problem(opened.name, what))
    return partial(next, iter((text,)), b""), EarlierRuns(cells=cells)


def _without_events(opened: OpenedLog) -> tuple[int | Callable[[], bytes], UserLog | None]:
    """Return the text of a log without the events of HTCondor's jobs, and what took them.

    Of one that lies in something else as a whole, what it holds.
    """
    source = opened.source
    if isinstance(source, int):
        peels = layers(opened.head)
        if not (has_events(opened.head) or peels or is_broken(opened.head)):
            return source, None
        text = iter(partial(os.read, source, _PIECE), b"")
    else:
        first = b"" if opened.head else source()  # of a packed log this reads the head
        text = chain((first,) if first else (), iter(source, b""))
        peels = layers(opened.head)
    if is_broken(opened.head):
        text = map(joined_lines, text)
    if not has_events(opened.head):
        return partial(next, unwrapped(text, peels) if peels else text, b""), None
    log = UserLog(opened.name)
    return partial(next, log.without_events(text), b""), log


def _of_last_run(
    opened: OpenedLog, source: int | Callable[[], bytes], problems: list[Problem]
) -> tuple[int | Callable[[], bytes], EarlierRuns]:
    """Return the text of a log; of one that several runs were appended to, that of the last.

    Also how the runs before it ended. Their lines are left empty, so that the numbers of lines are
    those of the file.
    """
    size = opened.plain_size or 0
    if not 0 < size <= MOST_BYTES:
        return source, EarlierRuns()
    data = os.pread(source, size, 0) if isinstance(source, int) else b"".join(iter(source, b""))
    read, data = data, without_passed(in_utf_8(data))
    step = failed_step(data)
    if step is not None:
        return _of_step(data, step, opened.name, problems), EarlierRuns()
    run = last_run(data)
    if run is None:
        whole = iter((data,))
        as_is = isinstance(source, int) and data is read
        return source if as_is else lambda: next(whole, b""), EarlierRuns()
    above, rest = data.count(b"\n", 0, run.begin), data[run.begin :]
    what, one = "holds several runs, one after the other: only the last one", "the one before"
    if run.another:
        what = "holds the output of several programs: only that of the last one"
        one = "another program"
    if run.caught:
        what = "holds an error that its program caught: only what follows it"
        one = "what came before"
    what = f"{what}, from line {above + 1:,} on, was judged"
    if run.earlier[0] is not None:
        said, line = run.earlier[0]
        what += f"; {one} ended with line {line:,}: {said[:160]}"
    problems.append(Problem(opened.name, what, "cut the file to see others"))
    pieces = iter((b"\n" * above, rest))
    if run.caught:
        return lambda: next(pieces, b""), EarlierRuns()
    earlier = (LastLine(told[0], opened.name, told[1]) if told else None for told in run.earlier)
    own = run.another  # another program may have run beside it
    pids = frozenset[int]() if own else _pids_in(data[: run.begin]) - _pids_in(rest)
    return lambda: next(pieces, b""), EarlierRuns(tuple(earlier), run.another, run.worked, pids)


def _pids_in(data: bytes) -> frozenset[int]:
    """Return the first processes that a text calls so."""
    return frozenset(int(found[1]) for found in islice(_PID.finditer(data), _MOST_PIDS))


def _of_step(
    data: bytes, step: FailedStep, name: str, problems: list[Problem]
) -> Callable[[], bytes]:
    """Return the text of a step that failed; the lines above it are left empty."""
    above = data.count(b"\n", 0, step.begin)
    if step.jobs > 1:
        what = f"holds {step.jobs:,} jobs of a CI: that which failed first, {step.job}, was judged"
        what += f", lines {above + 1:,} to {step.line:,}"
        what += f"; others that failed: {', '.join(step.others)}" if step.others else ""
        problems.append(Problem(name, what, "cut the file to see others"))
    if step.later:
        what = f"the job went on after line {step.line:,} with {counted(step.later, 'more step')}"
        what += ": they always run, or a failure of that step was allowed (continue-on-error)"
        problems.append(Problem(name, what, "the job's own conclusion tells which"))
    pieces = iter((b"\n" * above + data[step.begin : step.end],))
    return lambda: next(pieces, b"")


def _remarks(path: str, raw: RawRankLog) -> Iterator[Problem]:
    if raw["cut_lines"]:
        yield Problem(path, f"{counted(raw['cut_lines'], 'line')} over 1 MiB read in part")
    if raw["zeros"]:
        what = f"{raw['zeros']:,} zero bytes in it were skipped"
        remedy = "a log that was cut while it was written, or in a power failure, has them"
        yield Problem(path, what, remedy if raw["zeros"] >= _HOLE else None)
    if raw["binary_lines"]:
        yield Problem(path, f"{counted(raw['binary_lines'], 'line')} with binary data")
    if raw["left_out"]:
        what = f"{counted(raw['left_out'], 'remark')} of the same kind left out: there are too many"
        yield Problem(path, what)
    if raw["nameless"]:
        yield Problem(path, f"{counted(raw['nameless'], 'line')} with too many different prefixes")


def split_rank_log(file: LogFile, sink: Callable[[int, bytes], None]) -> None:
    """Hand out the clean text of each label of a file, by the label's position in it."""
    with contextlib.ExitStack() as stack:
        opened = OpenedLog(file.path, stack)
        _native.read_ranklog(_without_events(opened)[0], [], sink=sink)
