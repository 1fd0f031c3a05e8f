"""The report of system-call logs."""

from postmortem.diagnose.rule import Outcome as Concluded
from postmortem.diagnose.strace.benign_errors import missing_libraries, real_errors
from postmortem.diagnose.strace.grouping import is_shown
from postmortem.diagnose.strace.lastfailures import last_failures
from postmortem.diagnose.strace.recording_limits import remarks
from postmortem.facts.source import Problem, Source
from postmortem.facts.syscalls import FailedCalls, SystemCalls
from postmortem.present.headline.strace import headline
from postmortem.present.strace.blocks import strace_blocks
from postmortem.present.strace.body import strace_body
from postmortem.present.strace.card import strace_highlights
from postmortem.present.strace.ended import all_ended_well, failed, footer
from postmortem.present.strace.view import Found, StraceView
from postmortem.report.model import Outcome, Report


def strace_view(
    logs: tuple[SystemCalls, ...],
    finds: tuple[Found, ...],
    groups: tuple[FailedCalls, ...],
    *,
    summary: bool,
) -> StraceView:
    """Return what is to be shown of logs; `groups` are the calls that failed."""
    missing = [row for log in logs for row in missing_libraries(log)] if summary else []
    return StraceView(
        logs=logs,
        finds=finds,
        summary=summary,
        failed=tuple(g for g in groups if not summary or is_shown(g)),
        real_errors=tuple(row for log in logs for row in real_errors(log)),
        missing_libraries=tuple(missing),
        remarks=tuple(row for log in logs for row in remarks(log)) if summary else (),
        last_failures=tuple(row for log in logs for row in last_failures(log)),
    )


def strace_report(
    view: StraceView,
    outcome: Concluded,
    sources: tuple[Source, ...],
    problems: tuple[Problem, ...],
    *,
    verbose: bool,
    body: bool,
) -> Report:
    """Return the report; without `body` the fields of the JSON document are left out."""
    problems = (*problems, *outcome.problems)
    bad, whole = failed(view, outcome.diagnoses), view.summary and not problems
    return Report(
        kind="strace",
        inputs=sources,
        verdict=headline(view, outcome.diagnoses),
        failed=bad,
        diagnoses=outcome.diagnoses,
        blocks=strace_blocks(view, verbose=verbose),
        body=strace_body(view) if body else {},
        problems=problems,
        skipped=outcome.skipped,
        footer=footer(view.logs),
        highlights=strace_highlights(view, next(iter(outcome.diagnoses), None)),
        settled=Outcome.HEALTHY if whole and not bad and all_ended_well(view) else None,
    )
