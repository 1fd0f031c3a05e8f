"""PyTorch's all-reduce between the nodes failed.

What it means
    Where the pairs failed before, it is their consequence. Where all pairs work, it is
    PyTorch's own set-up on a node: its stage and words say what.
How to be sure
    torchrun with a script of three lines (init_process_group, all_reduce) meets the same.
What to do
    Look at the node whose stage is the earliest, or that raised first.
"""

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.net import Collective, NetCheck

_STAGES = {
    "import": "importing PyTorch",
    "store": "the TCP store (MASTER_ADDR, MASTER_PORT)",
    "group": "making the process group: each rank connects to each other",
    "all_reduce": "the all-reduce itself",
}


@rule(
    yields_to=(
        "pairs_fail",
        "large_packets_vanish",
        "wrong_interface",
        "interface_not_usable",
        "own_name_is_loopback",
        "node_missing",
    ),
    yields_as=Role.CASCADE,
)
def collective_failed(seen: NetCheck) -> Findings:
    order = list(_STAGES)
    failed = [one for one in seen.collectives if one.stage != "done"]
    if not failed:
        return
    first = min(failed, key=lambda one: order.index(one.stage) if one.stage in order else 9)
    what = _STAGES.get(first.stage, first.stage)
    some_done = [one for one in failed if one.stage == first.stage]
    node = seen.node(first.node)
    yield Finding(
        title=f"{first.backend}: {len(failed)} of {len(seen.collectives)} nodes failed, first in "
        f"{what}",
        cause=f"{len(some_done)} of {len(seen.collectives)} nodes came no further than {what}: "
        f"{first.error or 'no message'}.",
        confidence=Confidence.LIKELY,
        next_steps=(
            f"TORCH_DISTRIBUTED_DEBUG=DETAIL with a job of two ranks on {seen.label(first.node)} "
            "and one that works",
        ),
        evidence=tuple(_evidence(seen, one) for one in failed[:6]),
        about=Subject(host=node.host if node else None),
    )


def _evidence(seen: NetCheck, one: Collective) -> Evidence:
    return Evidence(seen.label(one.node), f"{one.stage}: {one.error or 'no message'}")
