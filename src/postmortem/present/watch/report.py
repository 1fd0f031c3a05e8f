"""The report at the end of a watch: blocks, and the fields of ``kind watch``."""

from postmortem.facts.watch import Sample, Watched, Watching
from postmortem.present.watch.table import COLUMNS, biggest_first, row
from postmortem.report.blocks import Block, KeyValues, Table
from postmortem.report.contract import fill
from postmortem.report.contract import watch as shapes
from postmortem.text import size

_MOST_POINTS = 240


def blocks(seen: Watching, notes: tuple[str, ...]) -> tuple[Block, ...]:
    """Return what is shown beside the diagnoses."""
    table = Table(
        (*COLUMNS[:-1], "command"),
        tuple(row(one) for one in biggest_first(seen)[:100]),
        title="what each holds",
        right_aligned=(1, 2, 3, 4, 5, 6, 7, 8),
    )
    ceilings = tuple(
        (one.name, f"{size(one.used[-1][1])} of {size(one.limit_bytes)} in use")
        for one in seen.ceilings
    )
    found: list[Block] = [table]
    if ceilings:
        found.append(KeyValues(ceilings, title="limits"))
    if notes:
        found.append(KeyValues(tuple(("not seen", note) for note in notes)))
    return tuple(found)


def body(seen: Watching) -> dict[str, object]:
    """Return the fields of the JSON report."""
    return fill(
        shapes.Watch,
        seen,
        processes=[_process(one) for one in seen.processes],
        limits=[fill(shapes.Limit, one, used_bytes=one.used[-1][1]) for one in seen.ceilings],
    )


def _process(one: Watched) -> dict[str, object]:
    step = max(1, -(-len(one.samples) // _MOST_POINTS))
    return fill(
        shapes.Process,
        one,
        samples=[_sample(sample) for sample in (*one.samples[:-1:step], one.samples[-1])],
        grew_at=[{"line": line, "times": count} for line, count in one.lines],
    )


def _sample(sample: Sample) -> dict[str, object]:
    return fill(
        shapes.Sample,
        sample,
        pss_bytes=_known(sample.pss_bytes),
        descriptors=_known(sample.descriptors),
        threads=_known(sample.threads),
        gpu_bytes=_known(sample.gpu_bytes),
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None
