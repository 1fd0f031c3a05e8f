"""``postmortem strace``: from logs to a report."""

from collections.abc import Sequence

from postmortem.analyses.masking import Masking
from postmortem.diagnose import rule
from postmortem.diagnose.strace.benign_errors import ASKED_CALLS, ASKED_ERRORS
from postmortem.diagnose.strace.grouping import grouped, is_failure
from postmortem.facts.call_query import CallQuery, Query, union
from postmortem.facts.last_words import LastWords
from postmortem.facts.source import Problem
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures
from postmortem.present.strace.ended import unanswered
from postmortem.present.strace.report import strace_report, strace_view
from postmortem.present.strace.view import found_by
from postmortem.readers.last_words import find_last_words
from postmortem.readers.strace import NOTHING, Beside, Question, read_recordings
from postmortem.records import record
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
    known = (CallQuery(ASKED_ERRORS), CallQuery(calls=ASKED_CALLS))
    question = Question(
        queries=known if summary else tuple(ask for ask in asks if ask),
        signals=union(options.queries, "signals"),
        statistics=summary,
        infer_sigbus=True,
        process=options.process,
        hits_only=not (summary or options.body or options.verbose or options.process is not None),
    )
    read = read_recordings(names, question, options.beside)
    logs = tuple(facts.calls.of_process(options.process) for facts in read)
    matches = [match for log in logs for match in log.matches]
    finds = tuple(found_by(query, matches) for query in options.queries)
    words = [word for log in logs for task in log.tasks[:1000] for word in task.argv or ()]
    masking = Masking(redact=options.redact, argv=(list(dict.fromkeys(words)),))
    logs, finds = masking.facts((logs, finds))
    failures = [match for log in logs for match in log.matches if is_failure(match)]
    if not summary:
        asked = {id(match) for found in finds for match in found.matches}
        failures = [match for match in failures if id(match) in asked]
    failed = grouped(failures)
    facts = {
        Failures: Failures(tuple(group for group in failed if group.real)),
        Logs: Logs(logs),
        LastWords: find_last_words(t for log in logs for t in log.tasks if summary),
    }
    outcome = rule.run(rule.load("strace"), facts)
    view = strace_view(logs, finds, failed, summary=summary)
    sources = tuple(source for one in read for source in one.sources)
    problems: list[Problem] = []
    for one in read:
        problems += one.problems
        problems += unanswered(one.calls, process=options.process, summary=summary)
    verbose, body = options.verbose, options.body
    report = strace_report(view, outcome, sources, tuple(problems), verbose=verbose, body=body)
    return masking.report(report)
