"""What is left of a job beside its logs: stacks, flight recorders, files of the monitor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.errors import EvidenceError
from postmortem.facts.flight_recorder import Recorder
from postmortem.facts.frames import Flight
from postmortem.facts.source import Problem, Source
from postmortem.facts.stackdumps import RankStack, StackDump
from postmortem.patterns import Pattern
from postmortem.readers.flight import is_flight, read_flight
from postmortem.readers.flight_recorder import (
    Shared,
    followed,
    looks_like_recorder,
    name_without_rank,
    read_recorder,
)
from postmortem.readers.formats import compression_of
from postmortem.readers.kernel_log.lines import looks_like_kernel_log
from postmortem.readers.log_clock import LATER, at_work, span_of, written
from postmortem.readers.log_heads import in_utf_8, known_head, looks_like_binary
from postmortem.readers.ranklogs.inner_stacks import stacks_in_logs
from postmortem.readers.regular import open_regular, read_regular, size_of, unread
from postmortem.readers.stackdumps import (
    looks_like_stacks,
    of_a_crash,
    own_text,
    process_in,
    read_stack_dumps,
)
from postmortem.readers.stackdumps.frames import Interned
from postmortem.readers.stackdumps.labels import fetching_workers, rank_stacks
from postmortem.records import replace

if TYPE_CHECKING:
    from postmortem._native import RawFlightRecorder
    from postmortem.readers.ranklogs.build_facts import ReadLog
    from postmortem.readers.ranklogs.log_names import LogFile

_HEAD = 64 << 10
_LARGEST = 256 << 20
_AT_A_TIME = 8
_RECORDER_NAME = Pattern(r"(?i)(?:trace_rank_|(?:^|[_-])fr_?)\d+(?:\.(?:pkl|pickle|json))?$")

STACKS, RECORDER, FLIGHT, KERNEL = "stacks", "recorder", "flight", "kernel"


def kind_of_file(path: str) -> str | None:
    """Return `STACKS`, `RECORDER`, `FLIGHT`, `KERNEL`, or None for all other files.

    An empty file with the name of a recorder's dump is one: its process died before it was written.
    """
    try:
        with open_regular(path) as stream:
            head = stream.read(_HEAD)
    except OSError:
        return None
    if looks_like_recorder(head) or (not head and _RECORDER_NAME.search(Path(path).name)):
        return RECORDER
    if is_flight(head):
        return FLIGHT
    if compression_of(head) is not None:
        head = known_head(path)
        return KERNEL if looks_like_kernel_log(head, path) else None
    if b"\0" in head:
        head = known_head(path)
    if looks_like_binary(head):
        return None
    if looks_like_kernel_log(head, path):
        return KERNEL
    return STACKS if looks_like_stacks(head.decode("utf-8", "replace")) else None


def crashed_in(path: str) -> int | None:
    """Return the process of whose crash gdb tells, 0 where it is not named; None for no crash."""
    try:
        with open_regular(path) as stream:
            text = stream.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        return None
    return process_in(text) if of_a_crash(text) else None


def read_stacks(
    paths: Iterable[str],
    logs: Sequence[ReadLog],
    ranks: Mapping[int, int],
    sources: list[Source],
    problems: list[Problem],
) -> tuple[list[RankStack], list[RankStack]]:
    """Return where the main threads of the ranks stand, and workers of theirs that are at work.

    `ranks` is what the `logs` know of processes: their ranks by pid. What ranks wrote into these
    themselves counts where nobody else looked at them.
    """
    frames = Interned()
    files: list[tuple[str, list[StackDump]]] = []
    for path in paths:
        data = _bytes(path, sources, problems)
        if data is None:
            continue
        try:
            dumps = read_stack_dumps(data.decode("utf-8", "replace"), path, frames)
        except EvidenceError as error:
            problems.append(Problem(path, error.what, error.hint))
            continue
        files.append((path, dumps))
    texts = [(p, d) for p, d in files if d and d[0].tool == own_text.TOOL]  # JSON of it tells more
    stacks = rank_stacks([one for one in files if one not in texts], ranks)
    stacks = stacks or rank_stacks(texts, ranks)
    if not stacks:
        return [*stacks_in_logs(logs)], fetching_workers(files)
    span = span_of(one.file.path for one in logs)
    stacks = [replace(one, goes_on=one.goes_on or at_work(span, one.where)) for one in stacks]
    return stacks, fetching_workers(files)


def read_recorders(
    paths: Iterable[str],
    sources: list[Source],
    problems: list[Problem],
    logs: Iterable[LogFile] = (),
) -> list[Recorder]:
    """Return the dumps, of each rank the one with the most calls."""
    shared = Shared()
    found: dict[int, Recorder] = {}
    for path, data, raw in _followed(paths, sources, problems):
        try:
            one = read_recorder(data, path, shared, raw, written(path))
        except EvidenceError as error:
            problems.append(Problem(path, error.what, error.hint))
            continue
        known = found.get(one.rank)
        # The JSON form has the same calls and no frames.
        if known is None or _worth(one) > _worth(known):
            found[one.rank] = one
    hosts = _hosts({rank: one.where for rank, one in found.items()})
    paths = [log.path for log in logs] if found else []
    ended = max((written(path) or 0.0 for path in paths), default=0.0)
    span = span_of(paths)
    return [
        replace(
            one,
            host=hosts.get(rank),
            outlived=0 < (one.written or 0.0) < ended - LATER,
            goes_on=at_work(span, one.where),
        )
        for rank, one in sorted(found.items())
    ]


def _hosts(paths: Mapping[int, str]) -> dict[int, str]:
    """Return the hosts that names of dumps have in their prefixes: ``fr_node07_12``.

    It is what differs between the names once the rank is taken out, and one part of them.
    """
    parts = {rank: name_without_rank(path).split("_") for rank, path in paths.items()}
    if len({len(words) for words in parts.values()}) != 1:
        return {}
    columns = zip(*parts.values(), strict=True)
    differing = [at for at, words in enumerate(columns) if len(set(words)) > 1]
    if len(differing) != 1:
        return {}
    return {rank: host for rank, words in parts.items() if (host := words[differing[0]])}


def _followed(
    paths: Iterable[str], sources: list[Source], problems: list[Problem]
) -> Iterator[tuple[str, bytes, RawFlightRecorder | EvidenceError | None]]:
    """Yield each dump with what it holds; two are followed at a time, and few are in memory."""
    names = list(paths)
    if len(names) <= _AT_A_TIME:
        for path in names:
            data = _bytes(path, sources, problems)
            if data is not None:
                yield path, data, None
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as threads:
        for at in range(0, len(names), _AT_A_TIME):
            read = [(p, _bytes(p, sources, problems)) for p in names[at : at + _AT_A_TIME]]
            there = [(path, data) for path, data in read if data is not None]
            raws = threads.map(followed, [data for _, data in there])
            for (path, data), raw in zip(there, raws, strict=True):
                yield path, data, raw


def read_flights(
    paths: Iterable[str], sources: list[Source], problems: list[Problem]
) -> list[Flight]:
    """Return the files of the numerics monitor, of each rank that of the last run."""
    found: dict[int, Flight] = {}
    for path in paths:
        try:
            flight, wrong = read_flight(path)
            sources.append(Source(path, size_of(path)))
        except EvidenceError as error:
            problems.append(Problem(path, error.what, error.hint))
            continue
        problems += [replace(one, where=f"{path}: {one.where}") for one in wrong]
        known = found.get(flight.recorder.rank)
        if known is None or flight.recorder.started > known.recorder.started:
            found[flight.recorder.rank] = flight
    return [found[rank] for rank in sorted(found)]


def _worth(one: Recorder) -> tuple[int, bool]:
    return one.calls, any(shape.frames for shape in one.shapes)


def _bytes(path: str, sources: list[Source], problems: list[Problem]) -> bytes | None:
    try:
        size = size_of(path)
        if size > _LARGEST:
            problems.append(Problem(path, f"{size:,} bytes are too many for a dump"))
            return None
        data = read_regular(path, most=_LARGEST)
    except OSError as error:
        problems.append(Problem(path, unread(error)))
        return None
    sources.append(Source(path, size))
    return in_utf_8(data)
