"""``postmortem net``: from what nodes saw of each other to a report."""

from collections import Counter

from postmortem.diagnose import rule
from postmortem.facts.net import LARGE, Met, NetCheck, Target
from postmortem.facts.source import Problem
from postmortem.present.net.card import net_highlights
from postmortem.present.net.report import blocks, body
from postmortem.report.model import Confidence, Outcome, Report, ordered
from postmortem.text import counted


def report_on(
    seen: NetCheck, problems: tuple[Problem, ...] = (), notes: tuple[str, ...] = ()
) -> Report:
    """Return what a check says."""
    outcome = rule.run(rule.load("net"), {NetCheck: seen})
    diagnoses = ordered(outcome.diagnoses)
    failed = any(one.confidence is not Confidence.POSSIBLE for one in diagnoses)
    said, healthy = _all_clear(seen)
    return Report(
        kind="net",
        inputs=(),
        verdict=(diagnoses[0].verdict or diagnoses[0].title) if failed else said,
        failed=failed,
        diagnoses=diagnoses,
        blocks=blocks(seen, notes),
        body=body(seen),
        problems=(*problems, *outcome.problems),
        skipped=outcome.skipped,
        more="--json for all of it",
        settled=None if failed else Outcome.HEALTHY if healthy else Outcome.UNKNOWN,
        highlights=None if diagnoses else net_highlights(seen),
    )


def _all_clear(seen: NetCheck) -> tuple[str, bool]:
    """Return the verdict where no rule found anything, and whether that is known."""
    if seen.target is not None and not seen.target.master:
        return _of_target(seen.target)
    if seen.world == 1:
        return (
            "one node alone: its names and interfaces are in order; no other node was tried",
            False,
        )
    good = sum(one.met is Met.OK for one in seen.probes)
    every = seen.world * (seen.world - 1)
    pairs = {(one.source, one.target) for one in seen.probes if one.met is Met.OK}
    if len(pairs) < every:
        return f"{len(pairs)} of {every} pairs of nodes work; the others were not tried", False
    done = Counter(one.backend for one in seen.collectives if one.stage == "done")
    backends = " and ".join(name for name in done if done[name] == seen.world)
    how = f"; an all-reduce by {backends} works too" if backends else ""
    count = counted(seen.world, "node")
    who = "both nodes" if count == "2 nodes" else f"all {count}"
    return f"{who} can talk with each other, both ways ({good:,} tries){how}", True


def _of_target(target: Target) -> tuple[str, bool]:
    if target.listened is not None:
        return (
            f"nobody tried {target.place} within {target.listened:.0f} s: run the same command "
            "on the other node meanwhile",
            False,
        )
    met = {one.met for one in target.attempts}
    if Met.OK in met:
        if target.ours:
            return f"{target.place} was reached by {target.attempts[0].address}", True
        return f"{target.place} is reached from here, and this node from there", True
    if met & {Met.FOREIGN, Met.SILENT} and not met & set(LARGE):
        return (
            f"{target.place} is reached from here: somebody listens there. Full packets and the "
            "way back need this command on both nodes, at a port that is free",
            True,
        )
    return f"{target.place}: nothing was tried", False
