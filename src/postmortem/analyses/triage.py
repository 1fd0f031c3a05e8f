"""``postmortem triage``: all evidence under some paths, one verdict."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from postmortem import underway
from postmortem.analyses.readings import Reading, Result, read_side_by_side
from postmortem.diagnose.incident.incident import judge
from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.present.triage.body import Used, triage_body
from postmortem.present.triage.report import triage_report
from postmortem.readers.archives import unpack
from postmortem.readers.inventory import OF_RANKS, Inventory, Item, Kind, take_inventory
from postmortem.readers.opening import terminations_unwind
from postmortem.readers.own_reports import read_own_report
from postmortem.records import record, replace
from postmortem.report.model import Report
from postmortem.report.strings import replaced
from postmortem.text import counted, shell_word

_MOST_RINGS = 64
_MOST_CORES = 64
_MOST_SCANNED = 8 << 30
"""Bytes of checkpoints that are read whole without being asked for."""
_NESTED = 2
"""Archives within archives that are opened."""


@record
class TriageOptions:
    """What the user asked for."""

    world_size: int | None = None
    verbose: bool = False
    redact: bool = True


def analyse(
    names: Sequence[str],
    options: TriageOptions,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Return the report on all evidence; raises EvidenceError where there is none."""
    folders: dict[str, str] = {}
    with terminations_unwind(), contextlib.ExitStack() as undo:
        found, roots, problems = _everything(names, undo, folders)
        readings, left = _plan(found, roots, options)
        documents = [(item, read_own_report(item.path)) for item in found.of(Kind.DOCUMENT)]
        underway.thinking()  # what is read from here on is read by others
        results = read_side_by_side(readings, progress)
    report = _report(names, found, (*_own(documents), *results), left, problems, options)
    return _as_named(report, folders)


def _as_named(report: Report, folders: dict[str, str]) -> Report:
    """Return the report with what was in archives named by them: our folders are gone by then."""
    if not folders:
        return report

    def named(text: str) -> str:
        for folder, archive in reversed(tuple(folders.items())):  # those within others came later
            text = text.replace(f"{folder}/", f"{archive}/")
        return text

    return replaced(report, named, lambda words: tuple(map(named, words)))


def _everything(
    names: Sequence[str], undo: contextlib.ExitStack, folders: dict[str, str]
) -> tuple[Inventory, tuple[str, ...], list[Problem]]:
    """Return what there is, in archives too, the paths to read, and what was left out.

    `folders` learns where archives were unpacked: folder to archive.
    """
    found = take_inventory(names)
    problems = list(found.problems)
    items, roots = list(found.items), list(names)
    packed = list(found.of(Kind.ARCHIVE))
    for _ in range(_NESTED):
        inner: list[Item] = []
        for archive in packed:
            folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="postmortem-")))
            folders[str(folder)] = archive.path
            problems += unpack(archive.path, folder)
            below = take_inventory([str(folder)])
            problems += below.problems
            items += below.items
            inner += below.of(Kind.ARCHIVE)
            roots.append(str(folder))
        packed = inner
    if packed:
        problems.append(Problem(packed[0].path, "is an archive within archives: not opened"))
    return Inventory(tuple(items)), tuple(roots), problems


def _plan(
    found: Inventory, roots: Sequence[str], options: TriageOptions
) -> tuple[list[Reading], dict[str, str]]:
    """Return what is read, and by path why something is not."""
    shared = [] if options.redact else ["--no-redact"]
    left: dict[str, str] = {}
    readings: list[Reading] = []
    ranks = found.of(*OF_RANKS)
    if ranks:
        folders = {f"{name.rstrip('/')}/": name for name in roots if Path(name).is_dir()}
        named = [item.path for item in ranks if not item.path.startswith(tuple(folders))]
        kept = [
            name
            for inside, name in folders.items()
            if any(item.path.startswith(inside) for item in ranks)
        ]
        size = ["--world-size", str(options.world_size)] if options.world_size else []
        paths = tuple(item.path for item in ranks)
        readings.append(Reading("logs", ("logs", *kept, *named, *size, *shared), paths))
    strace = tuple(item.path for item in found.of(Kind.STRACE))
    if strace:
        readings.append(Reading("strace", ("strace", *strace, *shared), strace))
    cores = sorted(found.of(Kind.CORE), key=lambda item: item.path)
    readings += [
        Reading("core", ("core", item.path, *shared), (item.path,)) for item in cores[:_MOST_CORES]
    ]
    for item in cores[_MOST_CORES:]:
        left[item.path] = f"more than {_MOST_CORES} cores: postmortem core --fold reads them all"
    tensors: list[str] = []
    room = _MOST_SCANNED
    for item in found.of(Kind.CHECKPOINT):
        room -= item.size_bytes
        if room < 0:
            left[item.path] = f"large: postmortem scan {shell_word(item.path)} reads it"
        else:
            tensors.append(item.path)
    if tensors:
        readings.append(Reading("scan", ("scan", *tensors, *shared), tuple(tensors)))
    readings += [
        Reading("watch", ("watch", "--read", item.path, *shared), (item.path,))
        for item in found.of(Kind.WATCH)[:_MOST_RINGS]
    ]
    return readings, left


def _own(documents: Sequence[tuple[Item, Mapping[str, Any] | EvidenceError]]) -> Iterator[Result]:
    for item, read in documents:
        reading = Reading("report", (), (item.path,))
        if isinstance(read, EvidenceError):
            yield Result(reading, None, read.what)
        else:
            yield Result(reading, read, None)


def _report(
    names: Sequence[str],
    found: Inventory,
    results: Sequence[Result],
    left: Mapping[str, str],
    problems: Sequence[Problem],
    options: TriageOptions,
) -> Report:
    read = [result for result in results if result.document is not None]
    documents = [result.document for result in read if result.document is not None]
    used = _used(found, results, left)
    if not documents:
        raise _nothing(names, results, found)
    judged = judge(documents)
    for index, why in judged.foreign.items():
        for path in read[index].reading.paths:
            used[path] = replace(used[path], belongs=False, used=False, why=why)
    for index in judged.apart:
        for path in read[index].reading.paths:
            used[path] = replace(used[path], why="nothing links it to the rest")
    apart = frozenset((*judged.foreign, *judged.apart))
    body = triage_body(judged, documents, tuple(used.values()), apart)
    inputs = tuple(
        Source(item.path, item.size_bytes) for item in found.items if used[item.path].used
    )
    return triage_report(
        judged,
        documents,
        tuple(used.values()),
        apart,
        body,
        inputs=inputs,
        problems=(*problems, *_problems(results, found)),
        verbose=options.verbose,
    )


def _used(found: Inventory, results: Sequence[Result], left: Mapping[str, str]) -> dict[str, Used]:
    rows = {
        item.path: Used(item.path, item.kind.value, None, False, left.get(item.path, item.why))
        for item in found.items
    }
    for result in results:
        verdict = None if result.document is None else str(result.document["verdict"])
        for path in result.reading.paths:
            rows[path] = replace(
                rows[path],
                used=result.document is not None,
                why=result.why,
                verdict=verdict if len(result.reading.paths) == 1 else None,
            )
    return rows


def _problems(results: Sequence[Result], found: Inventory) -> Iterator[Problem]:
    # What is no log was left out by the reader of logs, and has a reader of its own.
    others = {item.path for item in found.items if item.kind not in OF_RANKS}
    for result in results:
        if result.document is None:
            yield Problem(result.reading.paths[0], result.why or "could not be read")
            continue
        for row in result.document.get("problems", ()):
            if result.reading.kind != "logs" or row["where"] not in others:
                yield Problem(str(row["where"]), str(row["what"]), row.get("remedy"))


def _nothing(names: Sequence[str], results: Sequence[Result], found: Inventory) -> EvidenceError:
    where = ", ".join(names[:3])
    if results:
        hint = results[0].why
        return EvidenceError(where, "holds no evidence that could be read", hint=hint)
    count = len(found.items)
    why = f"none of {counted(count, 'file')} is a log, a core, a recording" if count else "no file"
    what = f"holds no evidence: {why}"
    hint = "looked for: logs of ranks, cores, strace logs, stacks, flight recorders, checkpoints"
    return EvidenceError(where, what, hint=hint)
