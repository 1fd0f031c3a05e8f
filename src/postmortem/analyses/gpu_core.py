"""``postmortem core`` of a GPU's dump: from the file to a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.analyses.masking import Masking
from postmortem.analyses.places import report_with_source
from postmortem.diagnose import rule
from postmortem.facts.gpu_core import GpuCore
from postmortem.present.gpu.body import gpu_body
from postmortem.present.gpu.card import gpu_highlights
from postmortem.present.headline.gpu_core import headline
from postmortem.readers.formats import ELF_HEADER_BYTES, elf_head
from postmortem.readers.gpu_core import read_amd_core, read_gpu_core
from postmortem.readers.opening import open_core
from postmortem.readers.regular import open_regular
from postmortem.records import replace
from postmortem.report.model import Report, ordered

if TYPE_CHECKING:
    from collections.abc import Callable

    from postmortem.report.blocks import Block

_MEMORY_SHOWN = 256


def analyse_gpu(
    path: Path,
    *,
    verbose: bool = False,
    redact: bool = True,
    temp_dir: Path | None = None,
    blocks: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Return the report on a core dump of GPUs; raises EvidenceError when it cannot be read."""
    with open_core(path, temp_dir=temp_dir, progress=progress, gpu=True) as opened:
        bytes_shown = _MEMORY_SHOWN if verbose else 0
        if _is_amd(opened.path):
            core = read_amd_core(str(opened.path), named=str(path))
        else:
            core = read_gpu_core(str(opened.path), named=str(path), memory_bytes=bytes_shown)
    outcome = rule.run(rule.load("gpu"), {GpuCore: core})
    diagnoses = ordered(outcome.diagnoses)
    source = replace(opened.source, truncated=opened.source.truncated or core.truncated)
    report = Report(
        kind="gpu_core",
        inputs=(source,),
        verdict=headline(core, diagnoses[0].title if diagnoses else None),
        failed=bool(core.faults),
        diagnoses=diagnoses,
        blocks=_blocks(core, verbose=verbose) if blocks else (),
        body=gpu_body(core),
        problems=(*opened.problems, *core.problems, *outcome.problems),
        skipped=outcome.skipped,
        footer=("native reader",),
        highlights=gpu_highlights(core),
    )
    return Masking(redact=redact).report(report_with_source(report, ran=core.written))


def _is_amd(path: Path) -> bool:
    with open_regular(path) as stream:
        head = elf_head(stream.read(ELF_HEADER_BYTES))
    return head is not None and head.is_amd


def _blocks(core: GpuCore, *, verbose: bool) -> tuple[Block, ...]:
    from postmortem.present.gpu.blocks import gpu_blocks  # not paid for by --json

    return gpu_blocks(core, verbose=verbose)
