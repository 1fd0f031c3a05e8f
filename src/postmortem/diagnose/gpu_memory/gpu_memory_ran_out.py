"""An allocation on the GPU failed, after the allocator had given back all that it could.

What it means
    torch.OutOfMemoryError was raised there. The snapshot tells who held the memory, and whether
    there was enough of it in holes that are too small (fragmentation).
How to be sure
    The trace of the snapshot holds the failed request; a program that went on has caught it.
What to do
    Make what the largest owner holds smaller, free it earlier, or split the batch. Where enough
    is free in small holes: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.
"""

from collections.abc import Iterator

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.gpu_memory import (
    DeviceMemory,
    GpuMemory,
    MemorySnapshot,
    OutOfMemory,
    place_of,
)
from postmortem.facts.gpu_memory import Owner as MemoryOwner
from postmortem.text import counted, shell_word, size

_WENT_ON = 16
"""Allocations that succeed after the failed one: it was caught. An exception's way out of the
program, or of the loop that prints it, makes a few at most."""
_OWNERS = 3


@rule("https://docs.pytorch.org/docs/stable/torch_cuda_memory.html")
def gpu_memory_ran_out(memory: GpuMemory) -> Findings:
    for snapshot in memory.snapshots:
        for device in snapshot.devices:
            if device.failures:
                yield _finding(snapshot, device, device.failures[-1])


def _finding(snapshot: MemorySnapshot, device: DeviceMemory, failed: OutOfMemory) -> Finding:
    survived = failed.later_allocations >= _WENT_ON
    place = place_of(failed.frames)
    at = f" at {place.words}" if place is not None else ""
    owners = device.peak.owners if device.peak is not None else device.owners
    fragmented = _fragmented(device, failed)
    count = len(device.failures)
    evidence = [
        Evidence(
            f"{snapshot.path}, GPU {device.device}",
            f"{size(failed.bytes)} asked for{at}; {size(failed.allocated_bytes)} allocated, "
            f"{size(failed.free_bytes)} left on the GPU"
            + (f"; {count} requests failed in all" if count > 1 else ""),
        )
    ]
    evidence += [Evidence("held by", held_words(one)) for one in owners[:_OWNERS]]
    return Finding(
        title=f"{snapshot.label}: GPU {device.device} had no {size(failed.bytes)} left{at}",
        cause=_cause(device, failed, owners, survived=survived, fragmented=fragmented),
        confidence=Confidence.CERTAIN,
        role=Role.CONTEXT if survived else None,
        next_steps=tuple(_steps(snapshot, owners, fragmented=fragmented)),
        evidence=tuple(evidence),
        about=Subject(rank=snapshot.rank),
    )


def _fragmented(device: DeviceMemory, failed: OutOfMemory) -> bool:
    """Whether enough was free within PyTorch's own segments, and no hole was large enough."""
    return device.free_bytes >= failed.bytes > device.largest_hole_bytes and not device.expandable


def _cause(
    device: DeviceMemory,
    failed: OutOfMemory,
    owners: tuple[MemoryOwner, ...],
    *,
    survived: bool,
    fragmented: bool,
) -> str:
    words = ""
    if fragmented:
        words = (
            f"{size(device.free_bytes)} were free in PyTorch's own segments, but in holes of at "
            f"most {size(device.largest_hole_bytes)}: the memory is fragmented. "
        )
    held, more = size(failed.allocated_bytes), size(failed.bytes)
    words += f"Tensors held {held} when {more} more were asked for"
    if owners and owners[0].place is not None:
        words += f"; {size(owners[0].bytes)}, the most, is of {owners[0].place.words}"
    words += "."
    if survived:
        words += f" The program went on: {failed.later_allocations:,} later requests succeeded."
    return words


def _steps(
    snapshot: MemorySnapshot, owners: tuple[MemoryOwner, ...], *, fragmented: bool
) -> Iterator[str]:
    if fragmented:
        yield "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow into one"
    owner = next((one for one in owners if one.place is not None), None)
    if owner is not None and owner.place is not None:
        yield f"look at {owner.place.words}: must it hold {size(owner.bytes)} at that time?"
    yield (
        "see it over time: drop the file on https://docs.pytorch.org/memory_viz, or "
        f"python -m torch.cuda._memory_viz trace_plot {shell_word(snapshot.path)} -o trace.html"
    )


def held_words(owner: MemoryOwner) -> str:
    """Return ``3.1 GiB in 12 blocks of forward (model.py:31)``."""
    place = owner.place.words if owner.place is not None else "code before the recording began"
    return f"{size(owner.bytes)} in {counted(owner.blocks, 'block')} of {place}"
