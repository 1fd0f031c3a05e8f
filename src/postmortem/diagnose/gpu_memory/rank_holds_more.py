"""One rank holds much more GPU memory than the others.

What it means
    All ranks of data-parallel training hold about the same. More on one is the work of that
    rank: rank 0 that loads checkpoints to its GPU, gathers losses, or is the GPU of processes
    that forgot torch.cuda.set_device; a longer sample; a stage of a pipeline.
How to be sure
    Compare the owners: what this rank has and the others have not is the difference.
What to do
    map_location="cpu" where checkpoints are loaded, set_device(local_rank) first of all.
"""

from collections.abc import Iterator
from statistics import median_low

from postmortem.diagnose.gpu_memory.gpu_memory_ran_out import held_words
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.gpu_memory import GpuMemory, MemorySnapshot, Owner
from postmortem.text import counted, size

_FEWEST_RANKS = 3
_FACTOR = 1.25
_LEAST_BYTES = 256 << 20
"""Below that a rank's part in logging or evaluation explains it, and nobody runs out of memory."""


@rule("https://docs.pytorch.org/docs/stable/torch_cuda_memory.html", role=Role.CONTRIBUTING)
def rank_holds_more(memory: GpuMemory) -> Findings:
    rows = {one.label: (_held(one), one) for one in memory.snapshots}
    if len(rows) < _FEWEST_RANKS:
        return
    usual = median_low([held for held, _ in rows.values()])
    for label, (held, snapshot) in rows.items():
        if held < _FACTOR * usual or held - usual < _LEAST_BYTES:
            continue
        others = [one for _, one in rows.values() if one is not snapshot]
        more = _difference(snapshot, others)
        yield Finding(
            title=f"{label} holds {size(held)} of GPU memory, the others {size(usual)}",
            cause=f"{label} had {size(held)} allocated at its peak, where half of the "
            f"{counted(len(rows), 'rank')} had {size(usual)} or less"
            + (f"; {held_words(more)} is what others do not have" if more is not None else "")
            + ".",
            confidence=Confidence.LIKELY,
            next_steps=(
                f"look at {more.place.words}: is it meant for one rank?"
                if more is not None and more.place is not None
                else "compare the owners of both: -v shows them",
            ),
            evidence=(
                Evidence(snapshot.path, f"{size(held)} at its peak"),
                Evidence("the median of all ranks", size(usual)),
            ),
            about=Subject(rank=snapshot.rank),
        )


def _held(snapshot: MemorySnapshot) -> int:
    return sum(
        one.peak.bytes if one.peak is not None else one.allocated_bytes for one in snapshot.devices
    )


def _owners(snapshot: MemorySnapshot) -> Iterator[Owner]:
    for one in snapshot.devices:
        yield from one.peak.owners if one.peak is not None else one.owners


def _difference(snapshot: MemorySnapshot, others: list[MemorySnapshot]) -> Owner | None:
    """Return the largest owner that is several times as large as with any of the others."""
    known: dict[object, int] = {}
    for other in others:
        for one in _owners(other):
            known[one.place] = max(known.get(one.place, 0), one.bytes)
    rows = (one for one in _owners(snapshot) if one.bytes > 2 * known.get(one.place, 0))
    return max(rows, key=lambda one: one.bytes, default=None)
