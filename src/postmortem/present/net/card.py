"""What a check of the network puts on its card where nothing is wrong: what was looked at."""

from collections.abc import Iterator

from postmortem.facts.net import Met, NetCheck, Node
from postmortem.report.card import Highlights
from postmortem.text import counted

_MOST_ROWS = 4


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
        rows=tuple((one.name, _stage(one.outcome, one.detail)) for one in seen.stages)
    )


def _met(met: Met, seconds: float) -> str:
    return f"{met}, {seconds * 1e3:.1f} ms" if met is Met.OK else str(met)


def _stage(outcome: str, detail: str) -> str:
    return f"{outcome}: {detail}" if detail else outcome


def _of_node(node: Node) -> Iterator[tuple[str, str]]:
    up = [one for one in node.interfaces if one.up and one.addresses]
    for one in up[:_MOST_ROWS]:
        yield one.name, f"{', '.join(one.addresses[:2])}, MTU {one.mtu}"
    if len(up) > _MOST_ROWS:
        yield "", counted(len(up) - _MOST_ROWS, "more interface")
    for choice in node.choices[:2]:
        by = f" by {choice.variable}={choice.value}" if choice.value else ""
        yield choice.library, f"takes {choice.interface or '–'} ({choice.address or '–'}){by}"
