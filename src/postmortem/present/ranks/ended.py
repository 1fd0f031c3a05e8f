"""How a job ended of which no log tells a failure: well, or nobody knows."""

from __future__ import annotations

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.causes import OtherText, SaidLast
from postmortem.facts.rank_logs import RankLogs
from postmortem.present.ranks.flights import unended_words
from postmortem.present.ranks.view import RankLogsView
from postmortem.report.model import Diagnosis, Outcome


def settled(view: RankLogsView, best: Diagnosis | None) -> Outcome | None:
    """Return what became of the job where it cannot be read off a diagnosis; else None."""
    cause = view.blame.cause
    if isinstance(cause, OtherText) or (isinstance(cause, SaidLast) and not cause.plain):
        return Outcome.UNKNOWN
    if best is None and _ended_well(view.logs):
        return Outcome.HEALTHY
    return None


def how_it_ended(logs: RankLogs) -> str:
    """Return the verdict where nothing failed as far as the logs tell."""
    unended = unended_words(logs)
    if unended or logs.flights or _ended_well(logs):
        return "no failure in these logs" + (f"; {unended}" if unended else "")
    if not logs.files and logs.stacks is not None:
        return "no log was given: these are stacks, which show where each process stands"
    last = max(logs.last_lines, key=lambda one: one.last.line, default=None)
    said = (
        f"; the last line is {last.last.line}: {clip(last.last.text.strip(), 120)}" if last else ""
    )
    return f"no failure is told of, and nothing here says how it ended{said}"


def _ended_well(logs: RankLogs) -> bool:
    """Whether the launcher says that all ended with 0, or each writer that it is done."""
    if logs.exits:
        return not any(end.code or end.signal for end in logs.exits)
    if logs.flights and not logs.last_lines:
        return unended_words(logs) is None
    return bool(logs.last_lines) and all(one.ended for one in logs.last_lines)
