"""From a run that failed to its folder and its verdict."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem import underway
from postmortem.readers.corefind import find_core_of
from postmortem.readers.corepattern import container_kind, destination, read_core_pattern
from postmortem.readers.regular import open_regular
from postmortem.run.explain import Explanation, explain, explanation_of
from postmortem.run.facts import CORE_SIGNALS, RunFacts, facts_of
from postmortem.run.folder import Evidence, collect, pack, redactor_of, write_manifest, write_rerun
from postmortem.run.outcome import Outcome
from postmortem.run.room import note_full
from postmortem.run.scratch import Scratch
from postmortem.text import size, without_numbers

if TYPE_CHECKING:
    from postmortem.run.once import Failure, Output

_MOST_CORES = 16
_OUTPUT_BYTES = 64 << 20


def make_report(failure: Failure) -> dict[str, object]:
    """Return verdict, text and folder of a failed run, as plain values."""
    options, outcome, folder = failure.options, failure.outcome, failure.folder
    scratch, variables = failure.scratch, failure.variables
    facts = facts_of(outcome, scratch.path, memory_kills=failure.kills, memory_limit=options.memory)
    redactor = redactor_of(failure.env, facts.processes) if options.redact else None
    evidence = Evidence(folder if folder is not None else scratch.path / "folder", redactor)
    evidence.path.mkdir(exist_ok=True)  # without a folder only the verdict is kept
    copies = [copy for one in failure.outputs if (copy := _copied(one, scratch)) is not None]
    collect(evidence, scratch.path, facts, copies)
    cores = cores_of(facts)
    explanations = explain(evidence.path, facts, cores, redactor, note_full(evidence))
    if options.strace is not None:
        explanations += _of_strace(evidence.path, options.strace, facts)
    if outcome.raised_core_limit and folder is not None:
        cores = {pid: _moved(path, pid, folder) for pid, path in cores.items()}
    best = explanations[0]
    notes = _notes(outcome, facts, cores)
    facts.problems += [f"{path}: {why}" for path, why in dict(underway.refusals).items()]
    shown = best.card or best.text
    text = redactor.text(shown) if redactor is not None else shown
    verdict = redactor.text(best.verdict) if redactor is not None else best.verdict
    others = [one for one in explanations[1:] if one.text.strip()]
    evidence.text("report.txt", "\n\n".join([best.text, *(one.text for one in others), *notes]))
    write_rerun(evidence, options.command, failure.env, variables)
    about: dict[str, object] = {
        "variables": {"set": dict(variables.added), "kept": list(variables.kept)},
        "cores": {
            "limit_bytes": outcome.core_limit if outcome.core_limit >= 0 else None,
            "go_to": destination(read_core_pattern(), container=container_kind()).words,
            "files": [{"pid": pid, "path": str(path)} for pid, path in cores.items()],
        },
        "notes": notes,
    }
    write_manifest(evidence, options.command, outcome, facts, explanations, about)
    packed = None
    if folder is not None and options.pack:
        try:
            packed = str(pack(folder))
        except OSError as error:
            notes.append(f"the folder could not be packed: {error.strerror}")
    return {
        "verdict": verdict,
        "text": text,
        "signature": signature_of(facts, best),
        "folder": packed or (str(folder) if folder is not None else None),
        "notes": notes,
        "words": _traceback(evidence.path),
    }


def cores_of(facts: RunFacts, *, wait_seconds: float = 5.0) -> dict[int, Path]:
    """Return the cores that processes left, by pid."""
    found: dict[int, Path] = {}
    crashed = [one for one in facts.processes if one.signal in CORE_SIGNALS][:_MOST_CORES]
    until = time.monotonic() + wait_seconds
    for one in crashed:
        name = os.path.basename(one.argv[0]) if one.argv else None  # noqa: PTH119
        search = find_core_of(
            one.pid,
            started_at=one.began,
            cwd=Path(one.cwd or "."),
            command=name,
            wait_seconds=max(0.0, until - time.monotonic()),
        )
        if search.path is not None:
            found[one.pid] = search.path
    return found


def _moved(core: Path, pid: int, folder: Path) -> Path:
    """Return where a core is now that is there only because of us: in the folder, if it may."""
    target = folder / "cores" / f"core.{pid}"
    try:
        target.parent.mkdir(exist_ok=True)
        core.rename(target)
    except OSError:  # on another file system, or not ours
        return core
    return target


def signature_of(facts: RunFacts, best: Explanation) -> str:
    """Return what two failures that are the same have in common, as a short hash.

    Numbers are left out of the words: addresses, pids, steps differ from run to run.
    """
    words = best.verdict
    first = facts.first_failure
    key = f"{best.kind}|{without_numbers(words)}|{first.signal if first is not None else ''}"
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:12]


def _notes(outcome: Outcome, facts: RunFacts, cores: Mapping[int, Path]) -> list[str]:
    """Return what else the reader must know, each in a line."""
    notes = [f"left out: {path} {why}" for path, why in underway.refused.items()]
    for pid, path in list(cores.items())[:4]:
        notes.append(f"core of pid {pid}: {path.absolute()}")
    crashed = [one for one in facts.processes if one.signal in CORE_SIGNALS]
    missing = [one for one in crashed if one.pid not in cores]
    if missing:
        taker = destination(read_core_pattern(), container=container_kind())
        limit = "; their limit is 0 (ulimit -c)" if outcome.core_limit == 0 else ""
        who = ", ".join(one.label for one in missing[:4])
        notes.append(f"no core of {who} was found; cores go to {taker.words}{limit}")
    alive = [one for one in facts.processes if one.ended is None and one.pid != facts.pid]
    if alive:
        pids = ", ".join(str(one.pid) for one in alive[:8])
        verb = "runs" if len(alive) == 1 else "run"
        notes.append(f"{len(alive)} of its processes still {verb}: {pids}")
    seen = [one for one in facts.processes if one.peak_rss]
    if seen and any(one.memory_killed for one in facts.processes):
        rows = sorted(seen, key=lambda one: -one.peak_rss)[:4]
        held = ", ".join(f"{one.label} {size(one.peak_rss)}" for one in rows)
        notes.append(f"most memory held, as seen each second: {held}")
    return notes


def _copied(output: Output, scratch: Scratch) -> Path | None:
    """Return a copy of what the command wrote to a regular file of standard output or error."""
    name = ("written.log", "stdout.log", "stderr.log")[output.number]
    target = scratch.path / name
    try:
        with open_regular(output.path) as stream:
            end = os.fstat(stream.fileno()).st_size
            stream.seek(max(output.start, end - _OUTPUT_BYTES))
            data = stream.read(_OUTPUT_BYTES)
        if not data:
            return None
        target.write_bytes(data)
    except OSError:
        return None
    return target


def _of_strace(folder: Path, query: str, facts: RunFacts) -> list[Explanation]:
    """Return what the recorded system calls say."""
    from postmortem.analyses.strace import StraceOptions, analyse
    from postmortem.errors import EvidenceError
    from postmortem.facts.call_query import parse

    options = StraceOptions(queries=(parse(query),) if query else ())
    try:
        report = analyse([str(folder / "strace" / "strace.txt")], options)
    except (EvidenceError, OSError) as error:
        facts.problems.append(f"strace: {error}")
        return []
    return [explanation_of(report, found=True)]


def _traceback(folder: Path) -> list[str]:
    """Return the text of the first log, for a comparison of two runs."""
    for path in sorted((folder / "logs").glob("*.log")):
        return path.read_text(errors="replace").splitlines()[-40:]
    return []
