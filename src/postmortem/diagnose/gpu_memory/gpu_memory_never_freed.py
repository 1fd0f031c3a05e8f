"""A line asks for GPU memory throughout the recording, and none of it is ever freed.

What it means
    Something keeps each of these tensors: a list of losses with their graphs, a cache, a hook.
How to be sure
    Record for longer: what leaks goes on growing.
What to do
    Keep numbers, not tensors (loss.item(), x.detach()), and empty what collects them.
"""

from postmortem.diagnose.gpu_memory.gpu_memory_ran_out import held_words
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.gpu_memory import GpuMemory
from postmortem.text import size

_SHARE = 0.05
"""Of what is allocated: less than that is not worth a word."""
_FIRST, _LAST = 0.4, 0.8
"""It began before the one and went on behind the other share of the recording: what fills caches,
weights or the optimizer's state does so once, in a row."""


@rule("https://docs.pytorch.org/docs/stable/notes/faq.html", role=Role.CONTRIBUTING)
def gpu_memory_never_freed(memory: GpuMemory) -> Findings:
    for snapshot in memory.snapshots:
        for device in snapshot.devices:
            for one in device.unfreed:
                if one.first > _FIRST or one.last < _LAST or one.owner.place is None:
                    continue
                if one.owner.bytes < _SHARE * device.allocated_bytes:
                    continue
                place = one.owner.place.words
                yield Finding(
                    title=f"{snapshot.label}: nothing of what {place} allocated was freed",
                    cause=f"{held_words(one.owner)} were allocated throughout the recording, and "
                    "all of them are still held.",
                    confidence=Confidence.POSSIBLE,
                    next_steps=(
                        f"look at who keeps the result of {place}: loss.item() and x.detach() keep "
                        "no graph",
                    ),
                    evidence=(
                        Evidence(
                            f"{snapshot.path}, GPU {device.device}",
                            f"{one.owner.blocks} blocks from {one.first:.0%} to {one.last:.0%} of "
                            f"the recording; {size(device.allocated_bytes)} allocated in all",
                        ),
                    ),
                    about=Subject(rank=snapshot.rank),
                )
