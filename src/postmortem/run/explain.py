"""The best explanation of what a run has left, out of the analyses that there are.

`explain` is what a verdict over all evidence will take the place of: it reads a folder of a run,
and knows nothing of how that came about.
"""

import io
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.phrases import known_cause
from postmortem.errors import DebuggerError, EvidenceError
from postmortem.facts.signature import Signature
from postmortem.knowledge.lookup import outside_end
from postmortem.patterns import Pattern
from postmortem.records import record, replace
from postmortem.report.blocks import KeyValues
from postmortem.report.model import Confidence, Diagnosis, Evidence, Report, Role
from postmortem.report.redact import Redactor
from postmortem.run.facts import CORE_SIGNALS, Process, RunFacts
from postmortem.run.raises import Raise, RaiseFrame
from postmortem.run.room import with_room
from postmortem.text import size

_FRAMES_SHOWN = 2
_VALUES_SHOWN = 8
_LONGEST_COMMAND = 60
_POOL = "pool-process-died"
_BLANK = Pattern(r"\b(?:CMD|LOG|FOLDER)\b")
_PATH = Pattern(r"'(/[^'…]*|)/[^/'…]+\.\w+'")
"""The value of a name that is a file's, as Python shows it."""


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
    card: str = ""
    """The same in at most 15 lines; "" where there is none."""
    conclusion: Mapping[str, object] | None = None
    """What it concludes, without words; None where nothing tells why."""


@record
class _Found:
    """The report of an analysis, which may hold secrets."""

    report: Report
    found: bool
    rank: int | None = None
    """Which failed first, where the report is of its process alone."""


_Step = Callable[[Path, RunFacts, dict[int, Path]], _Found | Explanation | None]


def explain(
    folder: Path,
    facts: RunFacts,
    cores: dict[int, Path],
    redactor: Redactor | None = None,
    full: dict[str, Any] | None = None,
) -> list[Explanation]:
    """Return what the analyses say of a run's folder, the best first; never raises.

    `cores` has the core files that processes left, by pid, and `full` is the report on file systems
    without room. Reports are masked by `redactor` before they are told: in lines that were wrapped
    or clipped a secret would be in parts.
    """
    found: list[Explanation] = []
    steps: list[_Step] = [_of_gpu_core, _of_core, _of_logs]
    if facts.stopped:
        steps.insert(0, _of_stacks)
    for step in steps:
        try:
            one: _Found | Explanation | None = step(folder, facts, cores)
            if isinstance(one, _Found):
                report = with_room(one.report, full)
                report = report if redactor is None else redactor.report(report)
                one = explanation_of(report, found=one.found, rank=one.rank)
        except (EvidenceError, DebuggerError, OSError) as error:
            facts.problems.append(f"{step.__name__.removeprefix('_of_')}: {error}")
            continue
        except Exception as error:  # one that evidence brought about costs no other explanation
            what = f"{type(error).__name__}: {error}".removesuffix(": ")
            facts.problems.append(f"{step.__name__.removeprefix('_of_')}: {what}")
            continue
        if one is not None:
            found.append(one)
    found.sort(key=lambda one: not one.found)
    raised = facts.first_failure is not None and any(one.raised for one in facts.processes)
    stopped = facts.stopped and not raised and not any(one.kind == "hang" for one in found)
    if stopped or not any(one.found for one in found):
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
            whole = f"{verdict}\n\n{rest}"
            return Explanation("hang", verdict, whole, "", True, conclusion=_conclusion(document))
    return None


def _of_core(folder: Path, facts: RunFacts, cores: dict[int, Path]) -> _Found | None:
    """Return what the core says of the process that died first, if it died of a signal."""
    first = facts.first_failure
    if first is None or first.signal not in CORE_SIGNALS or first.pid not in cores:
        return None
    from postmortem.analyses.core import CoreOptions, analyse

    report = analyse(cores[first.pid], CoreOptions(engine="native"))
    if len(facts.ranks) < 2:
        return _Found(report, found=True)
    verdict = f"{first.label} failed first: {report.verdict}"
    return _Found(replace(report, verdict=verdict), True, first.rank)


def _of_gpu_core(folder: Path, facts: RunFacts, cores: dict[int, Path]) -> _Found | None:
    """Return which kernel failed, of the process that died first if its GPU left a dump."""
    dumps = sorted((folder / "gpu").glob("core.*.nvcudmp"), key=lambda path: path.stat().st_mtime)
    if not dumps:
        return None
    from postmortem.analyses.gpu_core import analyse_gpu

    pid = facts.first_failure.pid if facts.first_failure is not None else None
    own = [path for path in dumps if path.name.endswith(f".{pid}.nvcudmp")]
    report = analyse_gpu((own or dumps)[0])
    return _Found(report, found=report.failed)


def _of_logs(folder: Path, facts: RunFacts, cores: dict[int, Path]) -> _Found | None:
    """Return what exceptions, endings, stacks and recorders of all processes say together."""
    from postmortem.analyses.ranklogs import RankLogOptions, report_on, with_hung
    from postmortem.facts.exits import LogExit
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
    raised = _first_raise(facts)
    # Of a single program the traceback stands right above the card.
    shown = raised is not None and not facts.ranks
    failures = tuple(
        replace(one, time=times.get(one.file, one.time), shown=shown) for one in read.logs.failures
    )
    logs = replace(
        read.logs,
        exits=(*(e for e in read.logs.exits if e.file != endings or not facts.ranks), *exits),
        failures=failures,
        world_size=read.logs.world_size or facts.world_size,
        world_source=read.logs.world_source or (facts.world_size and "WORLD_SIZE") or None,
    )
    report = report_on(replace(read, logs=logs), RankLogOptions())
    if raised is None:
        return _Found(report, found=report.failed)
    if not facts.ranks:
        log = f"pid-{raised.pid}.log"
        mine = next((one for one in failures if Path(one.file).name == log), None)
        known = known_cause(mine)
        pool = known is not None and known.id == _POOL and facts.lost_before(raised) is None
        own = any(one.role is Role.ROOT for one in report.diagnoses)
        if (pool or raised.is_of_others or not own) and (told := _by_output(folder, raised)):
            return _Found(told, found=True)
        report = _of_one(raised, facts, report, known)
    report = replace(report, blocks=(*_values(raised), *report.blocks))
    return _Found(report, found=True)


def _by_output(folder: Path, raised: Raise) -> Report | None:
    """Return what the output says, where another error than a raise that tells of others began."""
    from postmortem.analyses.ranklogs import RankLogOptions, analyse

    names = [str(path) for path in sorted((folder / "output").glob("*.log"))]
    report = analyse(names, RankLogOptions()) if names else None
    first = report.diagnoses[0] if report is not None and report.diagnoses else None
    is_other = first is not None and raised.type.rpartition(".")[2] not in first.title
    return report if first is not None and first.role is Role.ROOT and is_other else None


def _first_raise(facts: RunFacts) -> Raise | None:
    """Return the exception that began it all."""
    first = facts.first_failure
    if first is None:
        return None
    if facts.ranks:
        mine = [one for one in facts.raises if one.pid == first.pid and one.is_final]
        return mine[0] if mine else None
    logs = set(facts.log_times)
    mine = [one for one in facts.raises if f"pid-{one.pid}.log" in logs and one.where != "ignored"]
    return next((one for one in mine if one.is_final), mine[-1] if mine else None)


def _of_one(raised: Raise, facts: RunFacts, report: Report, known: Signature | None) -> Report:
    """Return the report on a program without ranks: what it raised, in which process, and what is
    `known` of that error."""
    what = clip(raised.said, 200)
    command = next((one for one in facts.processes if one.pid == facts.pid), None)
    whose = "the command" if raised.pid == facts.pid else f"pid {raised.pid}"
    if raised.pid != facts.pid and command is not None:
        whose += f" (started by {clip(_program(command), 40)})"
    frame = raised.frames[-1] if raised.frames else RaiseFrame("?", 0, "?", library=False)
    cause = f"{whose} raised it in {frame.function} ({frame.place}), and nothing caught it."
    verdict, sure = report.verdict, Confidence.CERTAIN
    if not raised.is_final:
        # It is what is known last; whether it is why the process failed, nothing says.
        subject = (
            "a thread died of it"
            if raised.where == "thread"
            else ("the last exception that it saw")
        )
        verdict = f"{what} ({frame.place} in {frame.function}): {subject}; {facts.ending}"
        cause = f"{whose} raised it in {frame.function} ({frame.place}): {subject}; {facts.ending}."
        sure = Confidence.LIKELY
    if raised.is_final and not any(one.role is Role.ROOT for one in report.diagnoses):
        verdict = f"{what} ({frame.place} in {frame.function})"
    if known is not None and known.id == _POOL and (lost := facts.lost_before(raised)):
        verdict = f"{lost.label} {lost.how}: {verdict}"
    if known is not None:
        cause, sure = f"{known.cause} {cause[0].upper()}{cause[1:]}", Confidence.LIKELY
    told = (one.next_steps for one in report.diagnoses if one.id == "rank_raised")
    lead = f"{whose} raised "
    diagnosis = Diagnosis(
        id="raised",
        lead=lead,
        title=clip(f"{lead}{what}", 100),
        role=Role.ROOT,
        confidence=sure,
        cause=cause,
        next_steps=(
            *(_filled(one, command, raised) for one in next(told, ())),
            f"look at the values of its frames: raises/{raised.file} has all of them",
        ),
        evidence=(Evidence(f"raises/{raised.file}", what),),
    )
    from postmortem.analyses.places import with_source
    from postmortem.present.places import told_values
    from postmortem.report.card import Highlights, Place

    frame = next((one for one in reversed(raised.frames) if not one.library), frame)
    place = Place(frame.function, frame.file, frame.line, values=told_values(frame.values))
    shown = with_source(Highlights(places=(place,), headline=verdict))
    # A rule that knows why, as where the numerics monitor raised it, says more than the raise.
    weaker = ("rank_raised", "last_words")
    better = any(one.role is Role.ROOT and one.id not in weaker for one in report.diagnoses)
    diagnoses = report.diagnoses if better else (diagnosis,)
    return replace(report, verdict=verdict, diagnoses=diagnoses, failed=True, highlights=shown)


def _filled(step: str, command: Process | None, raised: Raise) -> str:
    """Return a step with what was run in place of ``CMD``, and where a file was meant to go."""
    known: dict[str, str] = {}
    words = shlex.join(command.argv) if command is not None else ""
    if "CMD" in step and 0 < len(words) <= _LONGEST_COMMAND:
        known = {"CMD": words, "LOG": "strace.txt"}
    own = next((one for one in reversed(raised.frames) if not one.library), None)
    files = [_PATH.fullmatch(value) for _, value in (own.values if own else ())]
    folders = {one[1] or "/" for one in files if one is not None}
    if len(folders) == 1:
        known["FOLDER"] = shlex.quote(*folders)
    return _BLANK.sub(lambda m: known.get(m[0], m[0]), step)


def _values(raised: Raise) -> tuple[KeyValues, ...]:
    """Return the values of the innermost frames of the user's code."""
    frames = [one for one in raised.frames if one.values]
    own = [one for one in frames if not one.library]
    return tuple(
        KeyValues(one.values[:_VALUES_SHOWN], f"values in {one.function} ({one.place})")
        for one in [*reversed(own or frames)][:_FRAMES_SHOWN]
    )


def _evidence(folder: Path, facts: RunFacts) -> list[str]:
    """Return the files that one analysis takes together."""
    names = [str(path) for path in sorted((folder / "logs").glob("*.log"))]
    # The first look at the others is of the moment of the first failure; later ones show ends.
    stacks = sorted((folder / "stacks").glob("failure-*.json"))[:1]
    if len(facts.ranks) > 1:
        names += [str(path) for path in stacks]
    if not names:
        names = [str(path) for path in sorted((folder / "output").glob("*.log"))]
        names += [str(folder / "endings.txt")] if names and facts.endings else []
    for part in ("flight", "numerics"):
        names += [str(path) for path in sorted((folder / part).glob("*")) if path.is_file()]
    names += [str(path) for path in sorted((folder / "nccl").glob("*.log"))]
    if facts.endings and not names and any(one.rank is not None for one in facts.endings):
        names = [str(folder / "endings.txt")]
    return names


def explanation_of(report: Report, *, found: bool, rank: int | None = None) -> Explanation:
    """Return what a report says, in all the forms that are kept of it."""
    from postmortem.render import json as as_json
    from postmortem.render import terminal

    text, document = io.StringIO(), as_json.as_text(report)
    terminal.render(report, text, verbose=False)
    said = (report.kind, report.verdict, text.getvalue(), document, found)
    conclusion = _conclusion(json.loads(document), rank)
    return Explanation(*said, _card_text(report), conclusion)


def _conclusion(document: Mapping[str, Any], rank: int | None = None) -> dict[str, object]:
    """Return what the JSON of a report says without words, for who decides by it."""
    first = document.get("first_failure")
    stuck = document.get("culprits") or document.get("stuck")
    if not stuck:  # told without a majority, as a rank that is slow
        roots = (one for one in document["diagnoses"] if one["role"] == "root")
        stuck = [one["about"] for one in roots if one.get("about")]
    ranks = first["ranks"] if first else [rank, *(one["rank"] for one in stuck)]
    names = ("id", "role", "confidence")
    return {
        "ranks": sorted({*ranks} - {None}),
        "diagnoses": [{name: one[name] for name in names} for one in document["diagnoses"]],
    }


def _card_text(report: Report) -> str:
    """Return a report's card, as the standard error of the command gets it."""
    from postmortem.present.card import card_of, filled
    from postmortem.render import card

    out = io.StringIO()
    card.render(replace(card_of(filled(report)), footer=()), out)
    return out.getvalue()


def _of_ending(facts: RunFacts) -> Explanation:
    """Say how it ended, where nothing tells why."""
    first = facts.first_failure
    lines = [facts.ending]
    if first is not None and first.pid != facts.pid and not facts.stopped:
        lines.append(f"{first.label} ({_program(first)}) {first.how}, before all others")
    next_step = "read what it wrote, above; with run --keep-output that is explained, too"
    sender = (
        outside_end("signal", first.signal) if first is not None and not facts.stopped else None
    )
    if sender is not None:
        next_step = "; ".join(sender.steps)
    killed = [one for one in facts.processes if one.memory_killed]
    if killed:
        next_step = "give it more memory, or see who grows: postmortem watch PID while it runs"
        limit = facts.memory_limit
        whose = f", the {size(limit)} of --memory" if limit else ""
        who = "it" if killed[0].pid == facts.pid else killed[0].label
        told = f"the kernel killed {who} (SIGKILL): the memory limit was used up{whose}"
        lines = [told] if who == "it" else [told, *lines]
    elif first is not None and first.peak_rss and first.signal == "SIGKILL" and not facts.stopped:
        lines.append(f"it held {size(first.peak_rss)} at most")
    unsaid = facts.quiet and not killed
    why = "; no process told of an exception, and none left a core" if unsaid else ""
    verdict = f"{'; '.join(lines)}{why}"
    return Explanation("ending", verdict, f"{verdict}\n\n  next   {next_step}\n", "", found=False)


def _program(one: Process) -> str:
    words: Sequence[str] = one.argv
    return " ".join(words)[:80] if words else "?"
