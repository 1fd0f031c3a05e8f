"""What became of each file that lay there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from postmortem.diagnose.incident.incident import Judged
from postmortem.errors import EvidenceError
from postmortem.facts.inventory import OF_RANKS, Inventory, Result, Used
from postmortem.facts.source import Problem
from postmortem.records import replace
from postmortem.text import counted


def used(
    found: Inventory,
    results: Sequence[Result],
    told: Sequence[Result],
    left: Mapping[str, str],
    judged: Judged,
) -> dict[str, Used]:
    """Return what became of each file; `left` says by path why some were not read.

    `told` are the results without those of other runs.
    """
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
    of_others = {one.reading.run for one in results} - {one.reading.run for one in told}
    for result in results:
        if result.reading.run in of_others and result.reading.kind != "logs":
            for path in result.reading.paths:
                rows[path] = replace(rows[path], belongs=False, used=False, why="of another run")
    read = [result for result in told if result.document is not None]
    for index, why in judged.foreign.items():
        for path in read[index].reading.paths:
            rows[path] = replace(rows[path], belongs=False, used=False, why=why)
    for index, why in judged.apart.items():
        for path in read[index].reading.paths:
            rows[path] = replace(rows[path], why=why)
    return rows


def problems_of(results: Sequence[Result], found: Inventory) -> Iterator[Problem]:
    """Yield what could not be read, and the problems of the reports."""
    # What is no log was left out by the reader of logs, and has a reader of its own.
    others = {item.path for item in found.items if item.kind not in OF_RANKS}
    for result in results:
        if result.document is None:
            yield Problem(result.reading.paths[0], result.why or "could not be read")
            continue
        for row in result.document.get("problems", ()):
            if result.reading.kind != "logs" or row["where"] not in others:
                yield Problem(str(row["where"]), str(row["what"]), row.get("remedy"))


def nothing(
    names: Sequence[str], results: Sequence[Result], found: Inventory, problems: Sequence[Problem]
) -> EvidenceError:
    """Return what is wrong where not one report came of it."""
    where = ", ".join(names[:3])
    why = [result.why for result in results]
    why += [f"{problem.where}: {problem.what}" for problem in problems]
    if why:
        return EvidenceError(where, "holds no evidence that could be read", hint=why[0])
    what = "holds no evidence: no log, core or recording among "
    what += counted(len(found.items), "file")
    if not found.items:
        what = "holds no files"
    elif [item.path for item in found.items] == list(names):
        what = next((item.why for item in found.items if item.why), what)
    hint = "looked for: logs of ranks, cores, strace logs, stacks, flight recorders, checkpoints"
    if other := next((item for item in found.items if item.reader), None):
        hint = f"{other.path} {other.why}: {other.reader}"
    return EvidenceError(where, what, hint=hint)
