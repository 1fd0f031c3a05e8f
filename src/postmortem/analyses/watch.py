"""``postmortem watch``: from processes over time, or a ring file, to a report."""

from pathlib import Path

from postmortem.diagnose import rule
from postmortem.diagnose.watch.memory_grows import memory_grows
from postmortem.facts.source import Problem, Source
from postmortem.facts.watch import Watching
from postmortem.present.headline.watch import headline
from postmortem.present.watch.card import watch_highlights
from postmortem.present.watch.report import blocks, body
from postmortem.readers.watch_ring import read_watch_ring
from postmortem.report.model import Confidence, Outcome, Report, ordered

__all__ = ["memory_grows", "of_ring", "report_on"]


def of_ring(path: str) -> Report:
    """Return the report on a ring file; raises EvidenceError."""
    seen, ended, problems = read_watch_ring(Path(path))
    notes = () if ended else ("the watch was cut off: it did not end by itself",)
    source = Source(path, Path(path).stat().st_size)
    return report_on(seen, problems, notes, (), (source,))


def report_on(
    seen: Watching,
    problems: tuple[Problem, ...],
    notes: tuple[str, ...],
    footer: tuple[str, ...],
    inputs: tuple[Source, ...] = (),
) -> Report:
    """Return what the watch says of its processes."""
    outcome = rule.run(rule.load("watch"), {Watching: seen})
    diagnoses = ordered(outcome.diagnoses)
    return Report(
        kind="watch",
        inputs=inputs,
        verdict=headline(seen, diagnoses[0].title if diagnoses else None),
        failed=any(one.confidence is not Confidence.POSSIBLE for one in diagnoses),
        diagnoses=diagnoses,
        blocks=blocks(seen, notes),
        body=body(seen),
        problems=(*problems, *outcome.problems),
        skipped=outcome.skipped,
        footer=footer,
        settled=None if diagnoses else Outcome.UNKNOWN,
        highlights=None if diagnoses else watch_highlights(seen),
    )
