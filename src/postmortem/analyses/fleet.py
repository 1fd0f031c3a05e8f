"""``postmortem fleet``: from what many nodes answered to a report."""

from postmortem.diagnose import rule
from postmortem.facts.fleet import Fleet, Trouble
from postmortem.facts.source import Problem
from postmortem.present.fleet.report import blocks, body, silent_rows
from postmortem.report.card import Highlights
from postmortem.report.model import Confidence, Outcome, Report, ordered
from postmortem.text import counted


def report_on(seen: Fleet, problems: tuple[Problem, ...] = ()) -> Report:
    """Return what many nodes say; a node without a report keeps it from being healthy."""
    outcome = rule.run(rule.load("fleet"), {Fleet: seen})
    diagnoses = ordered(outcome.diagnoses)
    failed = any(one.confidence is not Confidence.POSSIBLE for one in diagnoses)
    groups = seen.part.groups
    healthy = (
        not diagnoses
        and len(seen.part.answered) == seen.asked
        and bool(groups)
        and all(one.outcome == "healthy" for one in groups)
    )
    return Report(
        kind="fleet",
        inputs=(),
        verdict=_lead(seen, failed) + (diagnoses[0].title if diagnoses else _clear(seen)),
        failed=failed,
        diagnoses=diagnoses,
        blocks=blocks(seen),
        body=body(seen),
        problems=(*problems, *map(_problem, seen.part.troubles), *outcome.problems),
        skipped=outcome.skipped,
        more="--json for all of it",
        highlights=Highlights(rows=silent_rows(seen)),
        settled=None if failed else Outcome.HEALTHY if healthy else Outcome.UNKNOWN,
    )


def _problem(one: Trouble) -> Problem:
    more = f"; so it is with {counted(one.count - 1, 'other')}" if one.count > 1 else ""
    return Problem(one.where, f"{one.what}{more}")


def _lead(seen: Fleet, failed: bool) -> str:
    left = seen.asked - len(seen.part.answered)
    answered = f"{len(seen.part.answered):,} of {seen.asked:,} nodes answered; "
    reasons = {one.why for one in seen.part.silent}
    return answered if failed and left and (seen.part.answered or len(reasons) > 1) else ""


def _clear(seen: Fleet) -> str:
    groups = sorted(seen.part.groups, key=lambda one: (-len(one.nodes), one.words))
    said = groups[0].verdict if groups else "no node has a report"
    if groups and seen.command == "net":  # one report of all
        return said
    if len(groups) == 1 and len(groups[0].nodes) == seen.asked:
        return f"{f'all {seen.asked:,} nodes' if seen.asked > 1 else groups[0].nodes[0]}: {said}"
    return f"{len(groups[0].nodes) if groups else 0:,} of {seen.asked:,} nodes: {said}"
