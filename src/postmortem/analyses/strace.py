"""``postmortem strace``: from logs to a report."""

from collections.abc import Sequence
from pathlib import Path

from postmortem.analyses.masking import Masking
from postmortem.diagnose import rule
from postmortem.diagnose.strace.grouping import grouped, is_failure
from postmortem.diagnose.strace.queries import ASKED_CALLS, ASKED_ERRORS
from postmortem.facts.call_query import CallQuery, Query, union
from postmortem.facts.last_words import LastWords
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures
from postmortem.present.strace.ended import unanswered
from postmortem.present.strace.report import strace_report, strace_view
from postmortem.present.strace.view import found_by
from postmortem.readers.last_words import find_last_words
from postmortem.readers.strace import NOTHING, Beside, Question, read_strace
from postmortem.readers.stracefind import LogGroup, find_logs
from postmortem.records import record, replace
from postmortem.report.model import Report


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
    logs = tuple(facts.calls.of_process(options.process) for facts in read)
    matches = [match for log in logs for match in log.matches]
    finds = tuple(found_by(query, matches) for query in options.queries)
    words = [word for log in logs for task in log.tasks[:1000] for word in task.argv or ()]
    masking = Masking(redact=options.redact, argv=(list(dict.fromkeys(words)),))
    logs, finds = masking.facts((logs, finds))
    matches = [match for log in logs for match in log.matches]
    failed = grouped(match for match in matches if is_failure(match))
    if not summary:
        asked = {id(match) for found in finds for match in found.matches}
        failed = grouped(m for m in matches if is_failure(m) and id(m) in asked)
    real = tuple(group for group in failed if group.real)
    known: dict[type, object] = {Failures: Failures(real), Logs: Logs(logs)}
    known[LastWords] = find_last_words(t for log in logs for t in log.tasks if summary)
    outcome = rule.run(rule.load("strace"), known)
    view = strace_view(logs, finds, failed, summary=summary)
    unknown = (
        problem
        for facts in read
        for problem in (
            *facts.problems,
            *unanswered(facts.calls, process=options.process, summary=summary),
        )
    )
    sources = tuple(source for facts in read for source in facts.sources)
    report = strace_report(
        view, outcome, sources, tuple(unknown), verbose=options.verbose, body=options.body
    )
    return masking.report(report)


def _hits_only(options: StraceOptions) -> bool:
    """Whether the report tells of nothing but hits where there are none."""
    whole = options.body or options.verbose or options.process is not None
    return bool(options.queries) and not whole and not options.beside.exports


def _labelled(group: LogGroup, groups: tuple[LogGroup, ...], options: StraceOptions) -> Beside:
    """Name a recording in what is exported, where there are several."""
    if len(groups) == 1 or not options.beside.exports:
        return options.beside
    return replace(options.beside, label=Path(group.name).name)
