"""``postmortem scan``: from checkpoints to a report."""

from collections.abc import Sequence

from postmortem.diagnose import rule
from postmortem.diagnose.tensors.series import series
from postmortem.facts.tensors import Tensors
from postmortem.present.headline.tensors import headline
from postmortem.present.tensors.blocks import scan_blocks
from postmortem.present.tensors.body import scan_body, scan_highlights
from postmortem.readers.checkpoint.scanning import CheckpointFacts, Progress, scan_checkpoint
from postmortem.report.model import Outcome, Report, Role
from postmortem.text import counted, size


def analyse(names: Sequence[str], *, verbose: bool, progress: Progress | None = None) -> Report:
    """Return the report on files or folders; raises EvidenceError if none can be read."""
    facts = scan_checkpoint(names, progress)
    found = series(facts.tensors)
    outcome = rule.run(rule.load("tensors"), {Tensors: facts.tensors})
    whole = sum(source.size_bytes for source in facts.sources)
    return Report(
        kind="scan",
        inputs=facts.sources,
        verdict=headline(
            facts.tensors,
            outcome.diagnoses,
            found,
            damaged=facts.damaged,
            unread=facts.unread,
            skipped=bool(facts.problems),
            numbers=facts.nan_numbers,
        ),
        failed=facts.damaged or any(one.role is Role.ROOT for one in outcome.diagnoses),
        diagnoses=outcome.diagnoses,
        blocks=scan_blocks(facts.tensors, facts.nan_numbers, verbose=verbose),
        body=scan_body(facts.tensors, facts.nan_numbers, found),
        problems=(*facts.problems, *outcome.problems),
        skipped=outcome.skipped,
        settled=_settled(facts),
        highlights=scan_highlights(facts.tensors, found),
        footer=(f"{counted(len(facts.sources), 'file')}, {size(whole)}",),
    )


def _settled(facts: CheckpointFacts) -> Outcome | None:
    """Healthy where every tensor was read and none is bad, nor a loss beside them."""
    bad = facts.tensors.bad or facts.damaged or facts.problems or facts.nan_numbers
    return Outcome.HEALTHY if facts.tensors.items and not bad else None
