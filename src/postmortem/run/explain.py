"""The best explanation of what a run has left, out of the analyses that there are.

`explain` is what a verdict over all evidence will take the place of: it reads a folder of a run,
and knows nothing of how that came about.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from postmortem.errors import DebuggerError, EvidenceError
from postmortem.records import record, replace
from postmortem.report.blocks import KeyValues
from postmortem.report.model import Confidence, Diagnosis, Evidence, Report, Role
from postmortem.rules.names import clip
from postmortem.run.facts import CORE_SIGNALS, Process, RunFacts

_FRAMES_SHOWN = 2
_VALUES_SHOWN = 8


@record
class Explanation:
    """One analysis of a part of the evidence."""

    kind: str
    verdict: str
    text: str
    """The whole report for people."""
    document: str
    """The same as JSON; "" where there is none."""
    found: bool
    """Whether it names a cause."""


def explain(folder: Path, facts: RunFacts, cores: dict[int, Path]) -> list[Explanation]:
    """Return what the analyses say of a run's folder, the best first; never raises.

    `cores` has the core files that processes left, by pid.
    """
    found: list[Explanation] = []
    steps = [_of_stacks, _of_core, _of_logs] if facts.stopped else [_of_core, _of_logs]
    for step in steps:
        try:
            one = step(folder, facts, cores)
        except (EvidenceError, DebuggerError, OSError, ValueError) as error:
            facts.problems.append(f"{step.__name__.removeprefix('_of_')}: {error}")
            continue
        if one is not None:
            found.append(one)
    found.sort(key=lambda one: not one.found)
    if not any(one.found for one in found):
        found.insert(0, _of_ending(facts))
    return found


def _of_stacks(folder: Path, facts: RunFacts, cores: dict[int, Path]) -> Explanation | None:
    """Return what the stacks say of a run that did not end by itself."""
    for name in ("timeout", "end"):
        path = folder / "stacks" / f"{name}.json"
        if path.exists():
            document = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
            verdict = f"{facts.ending}; {document['verdict']}"
            text = path.with_suffix(".txt")
            words = text.read_text(errors="replace") if text.exists() else document["verdict"]
            rest = words.partition("\n\n")[2]
            return Explanation("hang", verdict, f"{verdict}\n\n{rest}", "", found=True)
    return None


def _of_core(folder: Path, facts: RunFacts, cores: dict[int, Path]) -> Explanation | None:
    """Return what the core says of the process that died first, if it died of a signal."""
    first = facts.first_failure
    if first is None or first.signal not in CORE_SIGNALS or first.pid not in cores:
        return None
    from postmortem.analyses.core import CoreOptions, analyse

    report = analyse(cores[first.pid], CoreOptions(engine="native"))
    who = f"{first.label} failed first: " if len(facts.ranks) > 1 else ""
    return _explanation(replace(report, verdict=who + report.verdict), found=True)


def _of_logs(folder: Path, facts: RunFacts, cores: dict[int, Path]) -> Explanation | None:
    """Return what exceptions, endings, stacks and recorders of all processes say together."""
    from postmortem.analyses.ranklogs import RankLogOptions, report_on, with_hung
    from postmortem.facts.rank_logs import LogExit
    from postmortem.readers.ranklogs.read import read_rank_logs
    from postmortem.readers.ranklogs.sources import find_rank_logs

    names = _evidence(folder, facts)
    if not names:
        return None
    found = find_rank_logs(names)
    read = with_hung(found, read_rank_logs(found))
    endings = str(folder / "endings.txt")
    exits = tuple(
        LogExit(
            file=endings,
            line=number,
            rank=one.rank,
            local_rank=one.local_rank,
            pid=one.pid,
            code=one.code,
            signal=one.signal,
            launcher="postmortem run",
            stopped=one.was_stopped,
            memory=one.memory_killed,
            time=one.ended,
        )
        for number, one in enumerate(facts.endings, 1)
        if one.rank is not None
    )
    times = {str(folder / "logs" / log): when for log, when in facts.log_times.items()}
    failures = tuple(
        replace(one, time=times[one.file]) if one.file in times else one
        for one in read.logs.failures
    )
    world = max((one.world_size or 0 for one in facts.ranks), default=0) or None
    logs = replace(
        read.logs,
        exits=(*read.logs.exits, *exits),
        failures=failures,
        world_size=read.logs.world_size or world,
        world_source=read.logs.world_source or (world and "WORLD_SIZE") or None,
    )
    report = report_on(replace(read, logs=logs), RankLogOptions())
    raised = _first_raise(folder, facts)
    if raised is None:
        return _explanation(report, found=report.failed)
    if not facts.ranks:
        report = _of_one(raised, facts, report)
    report = replace(report, blocks=(*_values(raised), *report.blocks))
    return _explanation(report, found=True)


def _first_raise(folder: Path, facts: RunFacts) -> dict[str, Any] | None:
    """Return what was written when the exception that began it all was raised."""
    told = {Path(name).stem.removeprefix("pid-").removeprefix("rank") for name in facts.log_times}
    first = facts.first_failure
    if first is None or not told:
        return None
    who = first.pid if facts.ranks else None
    rows = []
    for path in sorted((folder / "raises").glob("*.json")):
        row = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
        is_it = row["pid"] == who if who is not None else str(row["pid"]) in told
        if is_it and row["where"] != "ignored":
            rows.append(row)
    final = [row for row in rows if row["where"] in ("main", "process")]
    if final:
        return min(final, key=lambda row: float(row["time"]))
    return rows[-1] if rows and who is None else None


def _of_one(raised: dict[str, Any], facts: RunFacts, report: Report) -> Report:
    """Return the report on a program without ranks: what it raised, in which process."""
    pid, where = int(raised["pid"]), raised["where"]
    name = str(raised["type"]).removeprefix("builtins.")
    what = clip(f"{name}: {str(raised['message']).strip()}".rstrip(": "), 200)
    command = next((one for one in facts.processes if one.pid == facts.pid), None)
    whose = "the command" if pid == facts.pid else f"pid {pid}"
    if pid != facts.pid and command is not None:
        whose += f", which {_program(command)} started,"
    frames = raised.get("frames") or [{}]
    function, line = frames[-1].get("function", "?"), frames[-1].get("line", "?")
    file = str(frames[-1].get("file", "?"))
    cause = f"{whose} raised {what} in {function} ({file}:{line}), and nothing caught it."
    verdict, sure = report.verdict, Confidence.CERTAIN
    if where in ("thread", "last"):
        # It is what is known last; whether it is why the process failed, nothing says.
        at = f"{Path(file).name}:{line} in {function}"
        subject = "a thread died of it" if where == "thread" else "the last exception that it kept"
        verdict, sure = f"{what} ({at}): {subject}; {facts.ending}", Confidence.LIKELY
        cause = f"{whose} raised {what} in {function} ({file}:{line}): {subject}; {facts.ending}."
    diagnosis = Diagnosis(
        id="raised",
        title=clip(f"{whose} raised {what}", 100),
        role=Role.ROOT,
        confidence=sure,
        cause=cause,
        next_steps=(f"look at the values of its frames: raises/{pid}-1.json has all of them",),
        evidence=(Evidence(f"raises/{pid}-1.json", what),),
    )
    return replace(report, verdict=verdict, diagnoses=(diagnosis,), failed=True)


def _values(raised: dict[str, Any]) -> tuple[KeyValues, ...]:
    """Return the values of the innermost frames of the user's code."""
    blocks = []
    for frame in reversed(raised.get("frames") or ()):
        rows = tuple((str(name), str(value)) for name, value in frame["locals"].items())
        if rows and len(blocks) < _FRAMES_SHOWN:
            place = f"{Path(frame['file']).name}:{frame['line']}"
            blocks.append(KeyValues(rows[:_VALUES_SHOWN], f"values in {frame['function']} ({place})"))
    return tuple(blocks)


def _evidence(folder: Path, facts: RunFacts) -> list[str]:
    """Return the files that one analysis takes together."""
    names = [str(path) for path in sorted((folder / "logs").glob("*.log"))]
    # The first look at the others is of the moment of the first failure; later ones show ends.
    stacks = sorted((folder / "stacks").glob("failure-*.json"))[:1]
    if len(facts.ranks) > 1:
        names += [str(path) for path in stacks]
    if not names:
        names = [str(path) for path in sorted((folder / "output").glob("*.log"))]
    names += [str(path) for path in sorted((folder / "flight").glob("*")) if path.is_file()]
    names += [str(path) for path in sorted((folder / "nccl").glob("*.log"))]
    if facts.endings and not names and any(one.rank is not None for one in facts.endings):
        names = [str(folder / "endings.txt")]
    return names


def _explanation(report: Report, *, found: bool) -> Explanation:
    from postmortem.render import json as as_json
    from postmortem.render import terminal

    text, document = io.StringIO(), io.StringIO()
    terminal.render(report, text, verbose=False)
    as_json.render(report, document)
    has_root = any(one.role is Role.ROOT for one in report.diagnoses)
    return Explanation(
        report.kind, report.verdict, text.getvalue(), document.getvalue(), found and has_root
    )


def _of_ending(facts: RunFacts) -> Explanation:
    """Say how it ended, where nothing tells why."""
    first = facts.first_failure
    lines = [facts.ending]
    if first is not None and first.pid != facts.pid:
        lines.append(f"{first.label} ({_program(first)}) {first.how}, before all others")
    if first is not None and first.peak_rss:
        lines.append(f"it held {first.peak_rss / 2**30:.2f} GiB at most")
    why = "" if not facts.quiet else "; no process told of an exception, and none left a core"
    verdict = f"{'; '.join(lines)}{why}"
    next_step = "what it wrote itself stands above; `postmortem logs LOG` explains a saved copy"
    return Explanation("ending", verdict, f"{verdict}\n\n  next      {next_step}\n", "", found=False)


def _program(one: Process) -> str:
    words: Sequence[str] = one.argv
    return " ".join(words)[:80] if words else "?"
