"""What a check of the network puts on its card where nothing is wrong: what was looked at."""

from collections.abc import Iterator
from typing import assert_never

from postmortem.facts.net import Met, NetCheck, Node, Stage, StageName
from postmortem.report.card import Highlights
from postmortem.text import counted

_MOST_ROWS = 4
_MOST_LACKING = 3


def net_highlights(seen: NetCheck) -> Highlights:
    """Return the stages, the tries, or the interfaces of a node that is alone."""
    if seen.target is not None:
        tries = seen.target.attempts[:_MOST_ROWS]
        return Highlights(rows=tuple((one.address, _met(one.met, one.seconds)) for one in tries))
    if seen.world == 1 or len(seen.nodes) == 1:
        rows = tuple(row for node in seen.nodes[:1] for row in _of_node(node))
        return Highlights(
            rows=rows,
            steps=(
                "postmortem net check HOST:PORT, on two nodes at once, tries the way between them",
                "srun --ntasks-per-node=1 postmortem net tries all pairs of a job's nodes",
            ),
        )
    return Highlights(
        rows=tuple(
            (str(one.name), ": ".join(filter(None, (one.outcome, stage_words(one)))))
            for one in seen.stages
        )
    )


def _met(met: Met, seconds: float) -> str:
    return f"{met}, {seconds * 1e3:.1f} ms" if met is Met.OK else str(met)


def stage_words(one: Stage) -> str:
    """Return how much was done in a stage, or why nothing was."""
    without = ", ".join(one.lacking[:_MOST_LACKING])
    match one.name:
        case StageName.MEETING:
            return f"{one.count} came"
        case StageName.NAMES:
            return ""
        case StageName.PAIRS:
            tries = counted(one.count, "try", "tries")
            return f"{tries} in {counted(one.rounds, 'round')}, {one.failed} failed"
        case StageName.SPEED:
            return f"{one.count} measured"
        case StageName.GLOO if without:
            return f"PyTorch is not installed on {without}"
        case StageName.NCCL if without:
            return f"no NVIDIA driver on {without}: NCCL was not run"
        case StageName.GLOO | StageName.NCCL:
            return f"all-reduce of {counted(one.count, 'node')}"
        case never:
            assert_never(never)


def _of_node(node: Node) -> Iterator[tuple[str, str]]:
    up = [one for one in node.interfaces if one.up and one.addresses]
    for one in up[:_MOST_ROWS]:
        yield one.name, f"{', '.join(one.addresses[:2])}, MTU {one.mtu}"
    if len(up) > _MOST_ROWS:
        yield "", counted(len(up) - _MOST_ROWS, "more interface")
    for choice in node.choices[:2]:
        by = f" by {choice.variable}={choice.value}" if choice.value else ""
        yield choice.library, f"takes {choice.interface or '–'} ({choice.address or '–'}){by}"
