"""The report of the logs of a job."""

from postmortem.diagnose.ranks.attribution import Attempts
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.diagnose.rule import Outcome
from postmortem.facts.last_lines import LogExcerpt
from postmortem.facts.rank_logs import RankLogs
from postmortem.facts.source import Problem, Source
from postmortem.present.headline.ranks import headline
from postmortem.present.ranks.blocks import rank_logs_blocks
from postmortem.present.ranks.body import rank_logs_body
from postmortem.present.ranks.card import ranks_highlights
from postmortem.present.ranks.ended import settled
from postmortem.present.ranks.view import RankLogsView, same_tracebacks
from postmortem.report.model import Report, Role
from postmortem.text import counted


def ranks_view(
    logs: RankLogs,
    attempts: Attempts,
    left_out: tuple[tuple[str, str], ...],
    excerpt: LogExcerpt | None,
) -> RankLogsView:
    """Return what is to be shown of logs; `left_out` are files with the reason each."""
    blame = attempts.blame
    return RankLogsView(
        logs=logs,
        blame=blame,
        tracebacks=same_tracebacks(f for f in logs.failures if f.kind != "ignored"),
        first=blame.first[0].failure if blame.first else None,
        attempts=attempts,
        excerpt=excerpt,
        left_out=left_out,
    )


def ranks_report(
    view: RankLogsView,
    outcome: Outcome,
    sources: tuple[Source, ...],
    problems: tuple[Problem, ...],
    forms: tuple[str, ...],
    *,
    verbose: bool,
) -> Report:
    """Return the report; `forms` are the prefixes that the logs have."""
    best = next(iter(outcome.diagnoses), None)
    of_best = best is not None and best.role is Role.ROOT
    return Report(
        kind="logs",
        inputs=sources,
        verdict=headline(view, best),
        failed=view.blame.how is not CauseKind.NOTHING or of_best,
        settled=settled(view, best),
        diagnoses=outcome.diagnoses,
        blocks=rank_logs_blocks(view, verbose=verbose),
        body=rank_logs_body(view, best.confidence if best is not None else None),
        problems=(*problems, *outcome.problems),
        skipped=outcome.skipped,
        footer=_footer(view.logs, forms),
        highlights=ranks_highlights(view, best),
    )


def _footer(logs: RankLogs, forms: tuple[str, ...]) -> tuple[str, ...]:
    parts = [f"{counted(logs.lines, 'line')} in {counted(len(logs.files), 'file')}"]
    if not logs.files and (logs.kernel.files or logs.recorders):
        parts.clear()
    if logs.kernel.files:
        parts.append(f"{counted(logs.kernel.lines, 'line')} of kernel logs")
    if logs.recorders:
        parts.append(counted(len(logs.recorders), "flight recorder"))
    read = (", ".join(parts),) if parts else ()
    return (*read, f"prefixes: {', '.join(forms)}") if forms else read
