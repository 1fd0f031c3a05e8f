"""``postmortem strace``: from logs to a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from postmortem.analyses.masking import Masking
from postmortem.analyses.straceask import Query, union
from postmortem.diagnose import rule
from postmortem.diagnose.strace.benign_errors import missing_libraries, real_errors
from postmortem.diagnose.strace.lastfailures import last_failures
from postmortem.diagnose.strace.queries import ASKED_CALLS, ASKED_ERRORS, SHOWN_ERRORS
from postmortem.diagnose.strace.recording_limits import RECORD, hidden, remarks
from postmortem.facts.last_words import LastWords
from postmortem.facts.source import Problem
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures, Match, SystemCalls
from postmortem.present.headline.strace import ended_badly, headline
from postmortem.present.strace.blocks import strace_blocks
from postmortem.present.strace.body import strace_body
from postmortem.present.strace.card import strace_highlights
from postmortem.present.strace.view import Found, StraceView
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
from postmortem.text import some


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
    verdict = headline(view, outcome.diagnoses)
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
        highlights=strace_highlights(view, next(iter(outcome.diagnoses), None)),
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
    return any(ended_badly(log) is not None for log in view.logs)


def _all_ended_well(view: StraceView) -> bool:
    """Whether every recording holds the end of its first process, with 0."""
    firsts = [log.tasks[0].ending if log.tasks else None for log in view.logs]
    return bool(firsts) and all(end is not None and end.code == 0 for end in firsts)


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
