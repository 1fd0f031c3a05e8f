"""``postmortem strace``: from logs to a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from postmortem.analyses.straceask import Query, union
from postmortem.facts.source import Problem
from postmortem.facts.syscalls import FailedCalls, Failures, Match, SystemCalls, Task
from postmortem.readers.strace import NOTHING, Beside, Question, StraceFacts, read_strace
from postmortem.readers.stracefind import LogGroup, find_logs
from postmortem.records import record, replace
from postmortem.report.model import Diagnosis, Report, Role
from postmortem.report.redact import Redactor
from postmortem.rules import rule
from postmortem.rules.strace.noise import SERIOUS, missing_libraries, real_errors
from postmortem.sections.quantities import counted
from postmortem.sections.strace_blocks import strace_blocks
from postmortem.sections.strace_body import strace_body
from postmortem.sections.strace_view import Found, StraceView

RECORD = "strace -f -ttt -T -o strace.txt COMMAND"
_ASKED_ALWAYS = (*SERIOUS, "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRINUSE")


@record
class StraceOptions:
    """What the user asked for."""

    queries: tuple[Query, ...] = ()
    verbose: bool = False
    redact: bool = True
    beside: Beside = NOTHING
    """What is exported, and who is told how far the reading is."""


def analyse(names: Sequence[str], options: StraceOptions) -> Report:
    """Return the report on logs; raises EvidenceError when one cannot be read at all."""
    summary = not options.queries
    question = Question(
        errors=_ASKED_ALWAYS if summary else union(options.queries, "errors"),
        calls=union(options.queries, "calls"),
        signals=union(options.queries, "signals"),
        statistics=summary,
        infer_sigbus=True,
    )
    groups = find_logs(names)
    read = [read_strace(group, question, _labelled(group, groups, options)) for group in groups]
    logs = tuple(facts.calls for facts in read)
    matches = [match for log in logs for match in log.matches]
    finds = tuple(_found(query, matches) for query in options.queries)
    failed = _grouped(match for match in matches if _is_failure(match))
    if not summary:
        asked = {id(match) for found in finds for match in found.matches}
        failed = _grouped(m for m in matches if _is_failure(m) and id(m) in asked)
    real = tuple(group for group in failed if group.real)
    outcome = rule.run(rule.load("strace"), {Failures: Failures(real)})
    missing = [row for log in logs for row in missing_libraries(log)] if summary else []
    view = StraceView(
        logs=logs,
        finds=finds,
        summary=summary,
        failed=failed,
        real_errors=tuple(row for log in logs for row in real_errors(log)),
        missing_libraries=tuple(missing),
    )
    verdict = _verdict(view, outcome.diagnoses)
    report = Report(
        kind="strace",
        inputs=tuple(source for facts in read for source in facts.sources),
        verdict=verdict,
        failed=_failed(view, outcome.diagnoses),
        diagnoses=outcome.diagnoses,
        blocks=strace_blocks(view, verbose=options.verbose),
        body=strace_body(view),
        problems=(*_problems(read), *outcome.problems),
        skipped=outcome.skipped,
        footer=_footer(logs),
    )
    if not options.redact:
        return report
    words = [word for log in logs for task in log.tasks[:1000] for word in task.argv or ()]
    redactor = Redactor.from_process((), (), list(dict.fromkeys(words)))
    return redactor.report(report)


def _labelled(group: LogGroup, groups: tuple[LogGroup, ...], options: StraceOptions) -> Beside:
    """Name a recording in what is exported, where there are several."""
    if len(groups) == 1 or not options.beside.exports:
        return options.beside
    return replace(options.beside, label=Path(group.name).name)


def _is_failure(match: Match) -> bool:
    return match.errno is not None or match.inferred


def _found(query: Query, matches: Iterable[Match]) -> Found:
    held = tuple(match for match in matches if query.holds(match))
    return Found(query.text, held, _grouped(held))


def _grouped(matches: Iterable[Match]) -> tuple[FailedCalls, ...]:
    """Group by what failed and on what, in the order of the first; injected failures last."""
    groups: dict[tuple[object, ...], list[Match]] = {}
    for match in matches:
        name = match.errno or match.syscall
        what = match.target.path or match.target.kind
        groups.setdefault((match.injected, name, what), []).append(match)
    made = [
        FailedCalls(items[0].errno or items[0].syscall, items[0].target, tuple(items))
        for items in groups.values()
    ]
    return tuple(sorted(made, key=lambda group: not group.real))


def _failed(view: StraceView, diagnoses: Sequence[Diagnosis]) -> bool:
    if not view.summary:
        return any(found.matches for found in view.finds)
    if any(diagnosis.role is Role.ROOT for diagnosis in diagnoses):
        return True
    return any(_ended_badly(log) is not None for log in view.logs)


def _ended_badly(log: SystemCalls) -> Task | None:
    """The task whose end tells most: one killed by a signal, else the first if it failed."""
    processes = [task for task in log.tasks if task.thread_of is None and task.ending is not None]
    for task in processes:
        if task.ending is not None and task.ending.signal is not None:
            return task
    first = log.tasks[0] if log.tasks else None
    if first is not None and first.ending is not None and first.ending.code not in (0, None):
        return first
    return None


def _verdict(view: StraceView, diagnoses: Sequence[Diagnosis]) -> str:
    if not view.summary:
        return "; ".join(_answer(found, view.logs) for found in view.finds)
    parts = [diagnoses[0].title] if diagnoses else []
    for log in view.logs:
        task = _ended_badly(log)
        if task is not None:
            parts.append(_ended(task))
            break
    parts += _worth_a_look(view) if not diagnoses else []
    if parts:
        return "; ".join(parts)
    waiting = [t for log in view.logs for t in log.tasks if t.ending is None and t.blocked]
    if waiting:
        calls = sorted({t.blocked.syscall for t in waiting if t.blocked})
        tasks = "1 task was" if len(waiting) == 1 else f"{len(waiting)} tasks were"
        return f"no failure that matters; {tasks} in {', '.join(calls[:4])} when the log ended"
    return "no failure that matters: every process ended well"


def _worth_a_look(view: StraceView) -> list[str]:
    """Failures that no rule explains: they may be how the program asks, or why it stopped."""
    parts = []
    for name, folders in view.missing_libraries[:1]:
        more = len(view.missing_libraries) - 1
        others = f" (and {counted(more, 'other')})" if more else ""
        where = counted(len(folders), "folder")
        parts.append(f"the library {name}{others} was never found, in {where}")
    real = [group for group in view.failed if group.real]
    if real:
        count = len(real[0].matches)
        times = "" if count == 1 else f", {count:,} times"
        rest = "" if len(real) == 1 else f"; {counted(len(real) - 1, 'other target')} failed too"
        parts.append(f"{real[0].errno} on {real[0].target.words}{times}{rest}")
    return parts


def _ended(task: Task) -> str:
    end = task.ending
    assert end is not None
    program = f" ({task.program[:60]})" if task.program else ""
    if end.signal is None:
        return f"pid {task.pid}{program} exited with {end.code}"
    sender = ""
    if end.sender is not None:
        sender = " from itself" if end.sender == task.pid else f" from pid {end.sender}"
    blocked = f" while in {task.blocked.syscall}" if task.blocked is not None else ""
    return f"pid {task.pid}{program} was killed by {end.signal}{sender}{blocked}"


def _answer(found: Found, logs: tuple[SystemCalls, ...]) -> str:
    real = [group for group in found.groups if group.real]
    if not found.matches:
        return f"{found.query}: {_nothing(logs)}"
    if not real:
        count = counted(len(found.matches), "failure")
        return f"{found.query}: {count}, all injected by strace itself: not real"
    matches = [match for group in real for match in group.matches]
    names = list(dict.fromkeys(match.syscall for match in matches))
    said = "failed " if all(match.errno is not None for match in matches) else ""
    noun = "call" if any(name.islower() for name in names) else "signal"
    words = f"{said}{'/'.join(names[:3])}{'' if len(names) <= 3 else ' …'}"
    calls = counted(len(matches), f"{words} {noun}")
    paths = list(dict.fromkeys(group.target.words for group in real))
    if len(paths) == 1:
        return f"{found.query}: {calls}, one target: {paths[0]}"
    return f"{found.query}: {calls}, {len(paths)} targets: {paths[0]} first"


def _nothing(logs: tuple[SystemCalls, ...]) -> str:
    if any(log.recording.io_uring for log in logs):
        files = [path for log in logs for path in log.recording.open_for_writing]
        writing = f"; open for writing there: {', '.join(files[:3])}" if files else ""
        return f"not in the log, but io_uring was used, whose failures strace cannot see{writing}"
    return f"no call in the log failed so; if it should have, record all tasks and calls: {RECORD}"


def _problems(read: Sequence[StraceFacts]) -> Iterable[Problem]:
    for facts in read:
        yield from facts.problems
        log = facts.calls
        unknown = [m for m in log.matches if m.fd is not None and m.target.source == "unknown"]
        if unknown and not log.recording.opens:
            what = "no open is in the log (-Z, -e trace=, strace -p): descriptors stay unknown"
            yield Problem(log.name, what, f"record the opens too: {RECORD}")


def _footer(logs: Sequence[SystemCalls]) -> str:
    lines = sum(log.recording.lines for log in logs)
    unread = sum(log.recording.unparsed for log in logs)
    options = list(dict.fromkeys(option for log in logs for option in log.recording.options))
    recorded = f" · recorded with {' '.join(options)}" if options else ""
    return f"{lines:,} lines, {unread:,} unread{recorded}"
