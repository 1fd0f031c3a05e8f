"""What the native reader found in the logs of one job, joined: whose failure, whose end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from postmortem.facts.batch_jobs import BatchJob
from postmortem.facts.last_lines import EarlierRuns, LastLines
from postmortem.facts.rank_logs import LogFailure, NativeFrame, RankLogs, Remark, Writer
from postmortem.readers.ranklogs.above import (
    watched_programs,
    with_above,
    with_reasons,
    without_captured,
    without_habit,
)
from postmortem.readers.ranklogs.actor_ends import actor_ends
from postmortem.readers.ranklogs.attempts import FileAttempts
from postmortem.readers.ranklogs.bad_numbers import may_be_bad, nan_above, nan_since, with_step
from postmortem.readers.ranklogs.demux import Demuxer
from postmortem.readers.ranklogs.endings import endings, process_named, rank_named, without_echoes
from postmortem.readers.ranklogs.error_files import quoted_failure, read_error_file
from postmortem.readers.ranklogs.exits import exits_of, without_ranks_of_agents
from postmortem.readers.ranklogs.filter import (
    is_agent,
    once,
    still_in_flight,
    survived_again,
    without_carriers,
)
from postmortem.readers.ranklogs.groups import group_text, group_tree
from postmortem.readers.ranklogs.known_lines import KnownLines
from postmortem.readers.ranklogs.known_words import with_known_words
from postmortem.readers.ranklogs.last_lines import last_lines
from postmortem.readers.ranklogs.launchers import Launchers
from postmortem.readers.ranklogs.lines import logs_error, shape_of
from postmortem.readers.ranklogs.log_names import LogFile, sections
from postmortem.readers.ranklogs.lone_exceptions import lone_exceptions
from postmortem.readers.ranklogs.native_stacks import native_below
from postmortem.readers.ranklogs.nccl import read_nccl
from postmortem.readers.ranklogs.roles import with_ray_ranks, with_roles
from postmortem.readers.ranklogs.rows import KeptRows
from postmortem.readers.ranklogs.services import Services
from postmortem.readers.ranklogs.sources import Found
from postmortem.readers.ranklogs.told_lines import ToldLines, with_earlier, without_told
from postmortem.readers.ranklogs.traceback import Traceback
from postmortem.readers.ranklogs.work_behind import FEW_WRITERS, WorkBehind
from postmortem.readers.ranklogs.world import Head, world_size
from postmortem.readers.ranklogs.writers import Label, Writers
from postmortem.records import record, replace

if TYPE_CHECKING:
    from postmortem._native import RawRankLog, RawRegion


_AFTERMATH = "error-aftermath"
"""What only follows from an error that stands above."""


@record
class ReadLog:
    """One file as the native reader gave it."""

    file: LogFile
    raw: RawRankLog
    earlier: EarlierRuns = EarlierRuns()
    head: Head = Head()
    jobs: tuple[BatchJob, ...] = ()
    """What became of jobs whose events stand in the file."""


class FactBuilder:
    """Facts of several files, joined."""

    def __init__(self, read: list[ReadLog], found: Found) -> None:
        self._read = read
        self._found = found
        self._known = KnownLines(row[2] for one in read for r in one.raw["regions"] for row in r[3])
        self._labels: list[Label] = []
        self._first: list[int] = []
        """Position of each file's first label."""
        self._launchers: dict[int, Launchers] = {}
        for one in read:
            self._first.append(len(self._labels))
            labels = one.raw["labels"]
            parts = sections(one.file, {x["section"] for x in labels if x["section"]})
            self._labels += [Label(parts.get(x["section"] or "", one.file), x) for x in labels]
        self._labels = with_ray_ranks(
            with_roles(self._labels), [one.raw for one in read], self._known
        )
        self._attempts = [FileAttempts(one.raw, one.file.attempt, self._known) for one in read]
        self._count = self._count_attempts()
        self._file_of = [i for i, one in enumerate(read) for _ in one.raw["labels"]]
        self._heard = [*filter(self._wrote_last, range(len(self._labels)))]
        self._regions: dict[int, list[RawRegion]] = defaultdict(list)
        for base, one in zip(self._first, read, strict=True):
            for region in one.raw["regions"]:
                self._regions[base + region[0]].append(region)
        for position, regions in self._regions.items():
            launchers = Launchers(self._labels[position].file.path, self._known)
            for region in regions:
                launchers.take(region[3])
            self._launchers[position] = launchers
        self._labels = without_ranks_of_agents(self._labels, self._launchers)
        exits = [
            (self._labels[position], end)
            for position, launchers in self._launchers.items()
            for end in launchers.exits
        ]
        self._writers = Writers(self._labels, exits)
        self._behind = WorkBehind(self._labels, self._writers, self._launchers, self._attempt)
        self._cut_agents: list[LogFailure] = []
        """What a launcher raised, and was cut off: told where nothing else is."""
        for position, launchers in self._launchers.items():
            path = self._labels[position].file.path
            launchers.leave_out_others(
                partial(self._behind.works_below, path),
                partial(self._behind.tried_again_below, path),
                partial(self._behind.calm_below, path),
            )

    def logs(self, world: int | None) -> RankLogs:
        failures: list[LogFailure] = []
        remarks: list[Remark] = []
        for position, regions in self._regions.items():
            failures += self._failures(position, KeptRows(regions))
            remarks += self._remarks(position, regions)
        exits = exits_of(self._labels, self._launchers, self._writers, self._attempt)
        failures += self._error_files()
        failures += self._quoted(failures)
        failures += self._cut_agents if not (failures or exits) else ()
        writers = self._writers.writers
        named = (i for i, label in enumerate(self._labels) if label.raw["pid"] is not None)
        processes = set(map(self._writers.index, named))
        few = self._labels if len(self._labels) <= FEW_WRITERS else []
        failures = with_known_words(without_captured(failures, few))
        last = tuple(self._last_lines(failures))
        services = Services(last, failures)
        last, failures = tuple(services.marked(last, writers)), services.survived(failures)
        failures += with_known_words(lone_exceptions(last, writers, exits, failures))
        exits = with_above(exits, failures, {w.rank for w in writers if w.lines})
        pids = {end.pid for end in exits}
        actors = actor_ends(failures, self._known, self._labels, last, self._writers)
        exits += tuple(end for end in actors if end.pid not in pids)
        heads = (one.head.size for one in self._read)
        size, source = world_size(world, remarks, self._read_world(), heads)
        hosts = dict.fromkeys(w.host for w in writers if w.host is not None)
        heard = set(map(self._writers.index, self._heard))
        logs = RankLogs(
            writers=tuple(
                writer if at in heard else replace(writer, last_words=())
                for at, writer in enumerate(writers)
            ),
            failures=tuple(survived_again(once(failures), processes)),
            exits=exits,
            remarks=tuple(remarks),
            stopped_pids=frozenset().union(*(x.stopped for x in self._launchers.values())),
            words=tuple(
                replace(word, attempt=self._attempt(position, word.line))
                for position, launchers in self._launchers.items()
                for word in launchers.words
            ),
            world_size=size,
            world_source=source,
            hosts=tuple(hosts),
            nccl=read_nccl(remarks, [link for one in self._read for link in one.raw["links"]]),
            attempts=self._count,
            lines=sum(one.raw["lines"] for one in self._read),
            files=tuple(one.file.path for one in self._read),
            last_lines=last,
            without_driver=self._found.without_driver,
            cells=tuple(cell for one in self._read for cell in one.earlier.cells),
            earlier=tuple(line for one in self._read for line in one.earlier.failed),
            earlier_pids=tuple(sorted({pid for one in self._read for pid in one.earlier.pids})),
            jobs=tuple(job for one in self._read for job in one.jobs),
        )
        begins: dict[str, int] = {}
        for label in self._labels:
            path, first = label.file.path, label.raw["first_line"]
            begins[path] = min(first, begins.get(path, first))
        logs = replace(logs, failures=with_reasons(logs, begins))
        return replace(logs, watched=watched_programs(logs, begins))

    def _last_lines(self, failures: list[LogFailure]) -> Iterator[LastLines]:
        """Yield how the last lines of each writer read; what is told of as a failure is known."""
        told: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for failure in failures:
            goes_on = failure.kind == "ignored" and not failure.frames  # a word, not a traceback
            aftermath = failure.kind == "terminate" and failure.said.match(_AFTERMATH) is not None
            if not goes_on and not aftermath:
                told[failure.file].append((failure.begin_line, failure.line))
        files = [self._labels[position].file.path for position in self._heard]
        earlier = {x.file.path: x.earlier for x in self._read if x.earlier.before}
        runs = set(earlier)
        known = {file: ToldLines(told[file]) for file in dict.fromkeys(files)}
        tails = (
            (self._labels[at].raw["tail"], self._writers.index(at), self._labels[at].file.path)
            for at in self._heard
        )
        writers = Counter(files)
        bad = any(may_be_bad(row[1]) for label in self._labels for row in label.raw["tail"])
        rows = [*zip(files, last_lines(tails, numbers=bad), strict=True)]
        busy = {file for file, f in rows if f and (f.worked or f.ended or f.last.since)}
        busy |= {x.file.path for x in self._read if x.earlier.worked}
        newest = dict(sorted((file, f.last.line if f else 0) for file, f in rows))  # the last
        for file, found in rows:
            if found is not None:
                if found.nearest_by != "form" and found.last.line < newest[file]:
                    near = found.nearest if found.nearest_by in ("word", "heading") else None
                    found = replace(found, nearest=near, nearest_counts=False)
                found = without_told(nan_since(found, file), known[file])
                if writers[file] == 1 and file not in runs:
                    found = without_habit(nan_above(found, file))
                yield with_earlier(with_step(found), earlier.pop(file, None), idle=file not in busy)

    def labels(self) -> dict[str, tuple[int, ...]]:
        """Return, of each file, which writer each of its labels is."""
        return {
            one.file.path: tuple(
                self._writers.index(base + i) for i in range(len(one.raw["labels"]))
            )
            for base, one in zip(self._first, self._read, strict=True)
        }

    def _wrote_last(self, position: int) -> bool:
        """Return whether a label wrote in the last attempt: what others said ended earlier ones."""
        at = self._attempt(position, self._labels[position].raw["last_line"])
        return at is None or at == self._count - 1

    def _count_attempts(self) -> int:
        of_errors = [file.attempt + 1 for file in self._found.errors if file.attempt is not None]
        return max([1, *(x.count for x in self._attempts), *of_errors])

    def _attempt(self, position: int, line: int) -> int | None:
        """Return the attempt that a line of a label is of."""
        file = self._file_of[position]
        return self._attempts[file].at(position - self._first[file], line)

    def _lines_until(self, position: int, line: int) -> int:
        file = self._file_of[position]
        return self._attempts[file].lines_until(position - self._first[file], line)

    def _read_world(self) -> int | None:
        """The ranks of a folder of torchrun, one for each."""
        local = {one.file.local_rank for one in self._read} - {None}
        return len(local) or None

    def _failures(self, position: int, kept: KeptRows) -> Iterator[LogFailure]:
        label = self._labels[position]
        writer = self._writers.index(position)
        known_writer = self._writers.writers[writer]
        nameless = known_writer.shared or known_writer.rank is None
        skip = self._launchers[position].summary_lines
        demuxer = Demuxer()
        for region in kept:
            lines = (
                shape_of(number, ordinal, text)
                for number, ordinal, text in region.rows
                if number not in skip
            )
            demuxer.take(lines, region.raw[6])
        for traceback in without_carriers(demuxer.finish()):
            if not is_agent(traceback):
                failure = self._failure(traceback, writer, position, kept)
                whose = self._of_ended(position, failure)
                remote = self._known.of(traceback.remote or "").get("ray-remote")
                if remote and whose is None:
                    host = remote["ip"] or None
                    whose = self._writers.of_process(remote["name"], int(remote["pid"]), host)
                if traceback.rank is not None:
                    whose = self._writers.of_rank(traceback.rank, label.file.path)
                    failure = replace(failure, source="quoted")
                if whose is not None:
                    # What a driver's logger wrote, it caught: an actor outlives its task's error.
                    work = failure.work if remote and failure.logged else None
                    failure = replace(failure, writer=whose, lines_after=0, work=work)
                elif nameless and (rank := rank_named(failure, self._known)) is not None:
                    failure = replace(failure, writer=self._writers.of_rank(rank, failure.file))
                yield failure
            elif not traceback.said.exception:
                self._cut_agents.append(self._failure(traceback, writer, position, kept))
        for failure in without_echoes(self._endings(position, writer, kept), self._known):
            rank = rank_named(failure, self._known) if nameless else None
            process = process_named(failure, self._known) if known_writer.shared else None
            if rank is not None:
                failure = replace(failure, writer=self._writers.of_rank(rank, failure.file))
            elif process is not None:
                pid, host = process
                words = f"process {pid}" + (f" on {host}" if host else "")
                failure = replace(failure, writer=self._writers.named(Writer(words, host=host)))
            yield failure

    def _of_ended(self, position: int, failure: LogFailure) -> int | None:
        """Return whose traceback it is, where Ray or spawn quotes that of a process that ended."""
        for end in self._launchers[position].exits:
            behind = failure.begin_line - end.line
            if end.launcher == "spawn" and behind == 1 and end.rank is not None:
                return self._writers.of_rank(end.rank, failure.file)
            # A driver's stack begins in a module: Ray's word above it may lack its line's end.
            if end.launcher == "ray" and behind == 0 and end.pid and not failure.uncaught:
                return self._writers.of_process("worker", end.pid, end.host)
        return None

    def _endings(self, position: int, writer: int, kept: KeptRows) -> Iterator[LogFailure]:
        for region in kept.joined(lambda text: "jvm-frames" in self._known.of(text)):
            until = self._lines_until(position, region.rows[-1][0])
            for failure in endings(
                region.raw, writer, self._labels[position].file.path, until, self._known
            ):
                attempt = self._attempt(position, failure.line)
                # Behind a report of the JVM stand its own sections, with forms that come again.
                dead = failure.match("jvm-signal", "jvm-internal") is not None
                work = None if dead else self._behind.work(position, failure)[0]
                failure = replace(failure, attempt=attempt, work=work)
                ended = self._labels[position].file.crashed is not None
                yield replace(failure, lines_after=0, work=None) if ended else failure

    def _failure(
        self, traceback: Traceback, writer: int, position: int, kept: KeptRows
    ) -> LogFailure:
        until = self._lines_until(position, traceback.line)
        behind = until - traceback.ordinal
        after = behind - kept.count(traceback.ordinal, until)
        region = kept.region(traceback.line)
        tree, text = None, traceback.text
        native: tuple[NativeFrame, ...] = ()
        below: list[str] = []
        if region is not None and "Exception Group" in text:
            rows = region.rows[region.index(traceback.begin) :]
            tree = group_tree(row[2] for row in rows)
            text = group_text(rows, traceback.line) or text
        if region is not None:
            native, below = native_below(region.rows, region.behind(traceback.ordinal))
        failure = replace(
            traceback.failure(writer, self._labels[position].file.path),
            parts=tree.leaves() if tree is not None else traceback.parts,
            group=tree,
            native=native,
            text="\n".join([text, *below]),
            lines_after=max(0, after),
            attempt=self._attempt(position, traceback.line),
            logged=behind > 0 and logs_error(kept.above(traceback.begin)),
        )
        work, went_on = None, False
        if region is None or not still_in_flight(region, failure.line, behind):
            work, went_on = self._behind.work(position, failure)
        return replace(failure, work=work, went_on=went_on)

    def _remarks(self, position: int, regions: list[RawRegion]) -> Iterator[Remark]:
        writer = self._writers.index(position)
        path = self._labels[position].file.path
        skip = self._launchers[position].summary_lines
        for _, _, _, rows, *_ in regions:
            for number, _, text in rows:
                if number not in skip:
                    attempt = self._attempt(position, number)
                    matches = self._known.matches(text)
                    yield Remark(text, writer, path, number, attempt, matches)

    def _error_files(self) -> Iterator[LogFailure]:
        for file in self._found.errors:
            failure = read_error_file(file)
            if failure is not None:
                yield replace(failure, writer=self._writers.beside(file), attempt=file.attempt)

    def _quoted(self, failures: list[LogFailure]) -> Iterator[LogFailure]:
        """Tracebacks that only torchelastic's summary has, of ranks that wrote elsewhere."""
        have = {self._writers.writers[f.writer].rank for f in failures}
        for position, launchers in self._launchers.items():
            path = self._labels[position].file.path
            for rank, line, lines in launchers.quoted:
                if rank not in have:
                    have.add(rank)
                    yield from quoted_failure(path, line, lines, self._writers.of_rank(rank, path))
