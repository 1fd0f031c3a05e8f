"""``postmortem watch --read`` of snapshots of PyTorch's GPU memory: from files to a report."""

from collections.abc import Sequence
from pathlib import Path

from postmortem.analyses.masking import Masking
from postmortem.analyses.places import report_with_source
from postmortem.diagnose import rule
from postmortem.errors import EvidenceError
from postmortem.facts.gpu_memory import GpuMemory
from postmortem.facts.source import Problem, Source
from postmortem.present.gpu_memory.blocks import memory_blocks, memory_highlights
from postmortem.present.gpu_memory.body import memory_body
from postmortem.present.headline.gpu_memory import headline
from postmortem.readers.memory_snapshot import read_snapshot
from postmortem.report.model import Outcome, Report, Role, ordered


def analyse(paths: Sequence[str], *, verbose: bool = False, redact: bool = True) -> Report:
    """Return the report on snapshots; raises EvidenceError where none can be read."""
    snapshots, problems = [], []
    for path in paths:
        try:
            snapshots.append(read_snapshot(path))
        except EvidenceError as error:
            if len(paths) == 1:
                raise
            problems.append(Problem(error.where, error.what, error.hint))
    if not snapshots:
        raise EvidenceError(problems[0].where, problems[0].what, hint=problems[0].remedy)
    masking = Masking(redact=redact)
    memory = masking.facts(GpuMemory(tuple(snapshots)))
    outcome = rule.run(rule.load("gpu_memory"), {GpuMemory: memory})
    diagnoses = ordered(outcome.diagnoses)
    failed = any(one.role is Role.ROOT for one in diagnoses)
    report = Report(
        kind="gpu_memory",
        inputs=tuple(Source(one.path, Path(one.path).stat().st_size) for one in memory.snapshots),
        verdict=headline(memory, diagnoses),
        failed=failed,
        diagnoses=diagnoses,
        blocks=memory_blocks(memory, verbose=verbose),
        body=memory_body(memory),
        problems=(*problems, *outcome.problems),
        skipped=outcome.skipped,
        highlights=memory_highlights(memory),
        settled=None if failed else Outcome.UNKNOWN,
    )
    return masking.report(report_with_source(report))
