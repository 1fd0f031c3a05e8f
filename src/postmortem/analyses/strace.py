"""``postmortem strace``: from logs to a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from postmortem.analyses.masking import Masking
from postmortem.analyses.straceask import Query, union
from postmortem.diagnose import rule
from postmortem.diagnose.names import clip
from postmortem.diagnose.strace.benign_errors import missing_libraries, real_errors
from postmortem.diagnose.strace.ending.killed_by_process import GivenUp
from postmortem.diagnose.strace.firstly import said_first
from postmortem.diagnose.strace.lastfailures import last_failures
from postmortem.diagnose.strace.queries import ASKED_CALLS, ASKED_ERRORS, SHOWN_ERRORS
from postmortem.diagnose.strace.recording_limits import RECORD, hidden, remarks
from postmortem.diagnose.strace.stderr_errors import last_said
from postmortem.facts.last_words import LastWords
from postmortem.facts.source import Problem
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures, Match, SystemCalls, Task
from postmortem.present.strace.blocks import strace_blocks
from postmortem.present.strace.body import strace_body
from postmortem.present.strace.view import Found, StraceView
from postmortem.present.strace.waits import interruption_words, stop_words, wait_words
from postmortem.readers.last_words import find_last_words
from postmortem.readers.strace import (
    NOTHING,
    Beside,
    CallQuery,
    Question,
    StraceFacts,
    read_strace,
)
from postmortem.readers.stracefind import LogGroup, find_logs
from postmortem.records import record, replace
from postmortem.report.model import Diagnosis, Outcome, Report, Role
from postmortem.text import counted, some

_WRITES = frozenset(
    {"write", "pwrite64", "writev", "pwritev", "sendfile", "copy_file_range", "mmap"}
)


@record
class StraceOptions:
    """What the user asked for."""

    queries: tuple[Query, ...] = ()
    process: int | None = None
    """Only this process and its threads."""
    verbose: bool = False
    redact: bool = True
    body: bool = True
    """Whether the fields of the JSON document are wanted; other forms have no use for them."""
    beside: Beside = NOTHING
    """What is exported, and who is told how far the reading is."""


def analyse(names: Sequence[str], options: StraceOptions) -> Report:
    """Return the report on logs; raises EvidenceError when one cannot be read at all."""
    summary = not options.queries
    asks = [query.calls_only for query in options.queries]
    question = Question(
        queries=(CallQuery(ASKED_ERRORS), CallQuery(calls=ASKED_CALLS))
        if summary
        else tuple(ask for ask in asks if ask),
        signals=union(options.queries, "signals"),
        statistics=summary,
        infer_sigbus=True,
        process=options.process,
        hits_only=_hits_only(options),
    )
    groups = find_logs(names)
    read = [read_strace(group, question, _labelled(group, groups, options)) for group in groups]
    logs = tuple(_only(facts.calls, options.process) for facts in read)
    matches = [match for log in logs for match in log.matches]
    finds = tuple(_found(query, matches) for query in options.queries)
    words = [word for log in logs for task in log.tasks[:1000] for word in task.argv or ()]
    masking = Masking(redact=options.redact, argv=(list(dict.fromkeys(words)),))
    logs, finds = masking.facts((logs, finds))
    matches = [match for log in logs for match in log.matches]
    failed = _grouped(match for match in matches if _is_failure(match))
    if not summary:
        asked = {id(match) for found in finds for match in found.matches}
        failed = _grouped(m for m in matches if _is_failure(m) and id(m) in asked)
    real = tuple(group for group in failed if group.real)
    known: dict[type, object] = {Failures: Failures(real), Logs: Logs(logs)}
    known[LastWords] = find_last_words(t for log in logs for t in log.tasks if summary)
    outcome = rule.run(rule.load("strace"), known)
    missing = [row for log in logs for row in missing_libraries(log)] if summary else []
    view = StraceView(
        logs=logs,
        finds=finds,
        summary=summary,
        failed=tuple(g for g in failed if not summary or _is_shown(g)),
        real_errors=tuple(row for log in logs for row in real_errors(log)),
        missing_libraries=tuple(missing),
        remarks=tuple(row for log in logs for row in remarks(log)) if summary else (),
        last_failures=tuple(row for log in logs for row in last_failures(log)),
    )
    verdict = _verdict(view, outcome.diagnoses)
    problems = (*_problems(read, options), *outcome.problems)
    bad, whole = _failed(view, outcome.diagnoses), summary and not problems
    report = Report(
        kind="strace",
        inputs=tuple(source for facts in read for source in facts.sources),
        verdict=verdict,
        failed=bad,
        diagnoses=outcome.diagnoses,
        blocks=strace_blocks(view, verbose=options.verbose),
        body=strace_body(view) if options.body else {},
        problems=problems,
        skipped=outcome.skipped,
        footer=_footer(logs),
        settled=Outcome.HEALTHY if whole and not bad and _all_ended_well(view) else None,
    )
    return masking.report(report)


def _hits_only(options: StraceOptions) -> bool:
    """Whether the report tells of nothing but hits where there are none."""
    whole = options.body or options.verbose or options.process is not None
    return bool(options.queries) and not whole and not options.beside.exports


def _is_shown(group: FailedCalls) -> bool:
    return group.errno in SHOWN_ERRORS or group.first.inferred


def _labelled(group: LogGroup, groups: tuple[LogGroup, ...], options: StraceOptions) -> Beside:
    """Name a recording in what is exported, where there are several."""
    if len(groups) == 1 or not options.beside.exports:
        return options.beside
    return replace(options.beside, label=Path(group.name).name)


def _is_failure(match: Match) -> bool:
    return match.errno is not None or match.inferred


def _found(query: Query, matches: Iterable[Match]) -> Found:
    held = tuple(match for match in matches if query.holds(match))
    groups = _grouped(held)
    if query.slower is not None:  # the longest first
        groups = tuple(sorted(groups, key=lambda g: -max(m.seconds or 0.0 for m in g.matches)))
    return Found(query.text, held, groups, slow=query.slower is not None)


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


def _all_ended_well(view: StraceView) -> bool:
    """Whether every recording holds the end of its first process, with 0."""
    firsts = [log.tasks[0].ending if log.tasks else None for log in view.logs]
    return bool(firsts) and all(end is not None and end.code == 0 for end in firsts)


def _ended_badly(log: SystemCalls) -> Task | None:
    """The task whose end tells most: the first killed by a signal, else the first if it failed."""
    was_given_up = GivenUp(log.tasks)
    killed = [
        (task, task.ending)
        for task in log.tasks
        if task.thread_of is None and task.ending is not None and task.ending.signal is not None
        if not was_given_up(task)
    ]
    if killed:
        in_order = len({end.file for _, end in killed}) == 1  # lines of -ff have no common order
        return min(killed, key=lambda row: row[1].line)[0] if in_order else killed[0][0]
    first = log.tasks[0] if log.tasks else None
    if first is not None and first.ending is not None and first.ending.code not in (0, None):
        return first
    return None


def _verdict(view: StraceView, diagnoses: Sequence[Diagnosis]) -> str:
    if not view.summary:
        return "; ".join(_answer(found, view.logs) for found in view.finds)
    said = said_first(diagnoses)
    parts = [said] if said else []
    follows = bool(diagnoses) and diagnoses[0].role is Role.CASCADE
    task: Task | None = None
    for log in view.logs:
        task = _ended_badly(log)
        if task is not None:
            parts.append(_ended(task) + _stuck_with(task, log))
            break
    parts += _last_line(task) if (follows or not said) and task is not None else []
    if follows and task is not None and task.ending is not None and task.ending.code:
        parts = [*parts[1:], *parts[:1]]  # a consequence is not the cause
    parts += _worth_a_look(view, task) if not said else []
    stops = [words for log in view.logs if (words := stop_words(log)) is not None]
    parts += [f"the log ends while {stops[0]}"] if stops else []
    if not stops and (not parts or not said):
        waits = [words for log in view.logs if (words := wait_words(log)) is not None]
        parts += [f"the log ends while {waits[0]}"] if waits else []
    if parts:
        return "; ".join(parts)
    tasks = [task for log in view.logs for task in log.tasks]
    if any(task.ending is None for task in tasks):
        return "no failure that matters; some processes had not ended when the log did"
    bad = sum(1 for t in tasks if t.thread_of is None and t.ending is not None and t.ending.code)
    if bad:
        failed = counted(bad, "child", "children")
        return f"no failure that matters: {failed} exited with an error, and the parent with 0"
    return "no failure that matters: every process ended well"


def _worth_a_look(view: StraceView, task: Task | None) -> list[str]:
    """Failures that no rule explains: they may be how the program asks, or why it stopped."""
    parts = []
    for name, folders in view.missing_libraries[:1]:
        more = len(view.missing_libraries) - 1
        others = f" (and {counted(more, 'other')})" if more else ""
        where = counted(len(folders), "folder")
        parts.append(f"the library {name}{others} was never found, in {where}")
    real = [group for group in view.failed if group.real]
    writing = _half_written(view)
    if not real and not parts and writing:
        parts.append(f"no write is in the log (-e trace=); it had open for writing: {writing}")
    if not real and not parts and view.last_failures:
        failure = view.last_failures[0][1][0]
        on = f" on {failure.path}" if failure.path else ""
        ended = view.last_failures[0][0]
        owner = "it" if task is None or task.pid == ended.pid else f"pid {ended.pid}"
        parts.append(
            f"the last call of {owner} that failed: {failure.syscall}, {failure.errno}{on}"
        )
    if real:
        count = len(real[0].matches)
        times = "" if count == 1 else f", {count:,} times"
        rest = "" if len(real) == 1 else f"; {counted(len(real) - 1, 'other target')} failed too"
        parts.append(f"{real[0].errno} on {real[0].target.words}{times}{rest}")
    return parts


def _half_written(view: StraceView) -> str | None:
    """What a process that failed had open for writing, where the log has no writes."""
    names = {call.name for log in view.logs for call in log.calls}
    if names & _WRITES:
        return None
    writing = next(
        (t.open_for_writing for log in view.logs for t in log.tasks if t.open_for_writing), ()
    )
    files = [path for path in writing if not path.startswith(("/dev/", "/proc/"))]
    return some(files, 2) if files else None


def _last_line(task: Task) -> list[str]:
    """What a process said last, where nothing else tells why it ended."""
    line = last_said(task)
    return [] if line is None else [f"it said: {clip(line, 80)}"]


def _stuck_with(task: Task, log: SystemCalls) -> str:
    """Say so when a signal ended a process whose tasks all waited in futex."""
    if task.ending is None or task.ending.signal is None:
        return ""
    threads = [t for t in log.tasks if t.thread_of == task.pid]
    mates = [task, *(t for t in threads if t.ending is not None and t.ending.signal is not None)]
    if len(mates) < 2 or any(t.blocked is None or t.blocked.syscall != "futex" for t in mates):
        return ""
    return f"; all {len(mates)} of its tasks were waiting in futex"


def _ended(task: Task) -> str:
    end = task.ending
    assert end is not None
    program = f" ({task.program[:60]})" if task.program else ""
    asked = interruption_words(task)
    before = "" if asked is None else f", after {asked}"
    if end.signal is None:
        return f"pid {task.pid}{program} exited with {end.code}{before}"
    if before and end.sender == task.pid:
        return f"pid {task.pid}{program} ended of {end.signal}{before}"
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
    paths = list(
        dict.fromkeys(
            group.target.words
            for group in real
            if group.first.fd is not None or group.target.path is not None
        )
    )
    longest = max((match.seconds or 0.0 for match in matches), default=0.0)
    if found.slow:
        calls += f", the longest {longest:.3f} s"
    if not paths:
        return f"{found.query}: {calls}"
    if len(paths) == 1:
        return f"{found.query}: {calls}, one target: {paths[0]}"
    return f"{found.query}: {calls}, {len(paths)} targets: {paths[0]} first"


def _nothing(logs: tuple[SystemCalls, ...]) -> str:
    if any(log.recording.io_uring for log in logs):
        files = [path for log in logs for path in log.recording.open_for_writing]
        writing = f"; open for writing there: {', '.join(files[:3])}" if files else ""
        return f"not in the log, but io_uring was used, whose failures strace cannot see{writing}"
    return f"no call in the log failed so; if it should have, record all tasks and calls: {RECORD}"


def _only(log: SystemCalls, process: int | None) -> SystemCalls:
    """Return a log as if it were of one process and its threads."""
    if process is None:
        return log
    tasks = tuple(task for task in log.tasks if process in (task.pid, task.thread_of))
    return replace(log, tasks=tasks)


def _problems(read: Sequence[StraceFacts], options: StraceOptions) -> Iterable[Problem]:
    for facts in read:
        yield from facts.problems
        log = facts.calls
        if options.process is not None and not any(t.pid == options.process for t in log.tasks):
            what = f"process {options.process} is not in the log"
            seen = [task.pid for task in log.tasks if task.thread_of is None]
            yield Problem(log.name, what, f"it has {some(seen)}" if seen else None)
        if not options.queries and options.process is None:
            yield from hidden(log)
            continue
        unknown = [m for m in log.matches if m.fd is not None and m.target.source == "unknown"]
        if unknown and not log.recording.opens:
            what = "no open is in the log (-Z, -e trace=, strace -p): descriptors stay unknown"
            yield Problem(log.name, what, f"record the opens too: {RECORD}")


def _footer(logs: Sequence[SystemCalls]) -> str:
    lines = sum(log.recording.lines for log in logs)
    unread = sum(log.recording.unparsed for log in logs)
    read = f"{lines:,} lines, {unread:,} unread"
    if any(log.recording.searched for log in logs):
        read = f"{lines:,} lines searched"
    options = list(dict.fromkeys(option for log in logs for option in log.recording.options))
    recorded = f" · recorded with {' '.join(options)}" if options else ""
    return read + recorded
