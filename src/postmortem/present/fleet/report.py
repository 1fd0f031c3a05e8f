"""The report over many nodes: blocks, and the fields of ``kind fleet``."""

from postmortem.facts.fleet import Fleet
from postmortem.facts.host_names import short
from postmortem.report.blocks import Block, KeyValues, Table
from postmortem.report.contract import fill
from postmortem.report.contract import fleet as shapes

_MOST = 40
_MOST_SILENT = 5


def blocks(seen: Fleet) -> tuple[Block, ...]:
    """Return what is shown beside the diagnoses."""
    part = seen.part
    found: list[Block] = [
        KeyValues(
            (
                ("asked", f"{seen.asked:,} nodes by {seen.engine}"),
                ("answered", f"{len(part.answered):,}"),
            ),
            title=f"postmortem {seen.command}",
        )
    ]
    rows = sorted(part.groups, key=lambda one: (-len(one.nodes), one.words))
    if rows:
        cells = tuple(
            (str(len(one.nodes)), one.outcome, short(one.nodes, 3), one.verdict)
            for one in rows[:_MOST]
        )
        found.append(Table(("nodes", "outcome", "which", "verdict"), cells, "what they say", (0,)))
    if part.standing:
        stands = sorted(part.standing, key=lambda one: (one.count, one.frames))
        places = tuple(
            (str(one.count), short(one.nodes, 3), " <- ".join(one.frames[:3]))
            for one in stands[:_MOST]
        )
        found.append(Table(("ranks", "nodes", "where"), places, "where the ranks stand", (0,)))
    if part.crashes:
        kept = {name: file for name, file, _ in seen.kept}
        files = tuple(
            (str(one.count), short(one.nodes, 3), one.hash, one.summary, kept.get(one.hash, ""))
            for one in sorted(part.crashes, key=lambda one: (one.count, one.hash))[:_MOST]
        )
        head = ("cores", "nodes", "signature", "summary", "kept")
        found.append(Table(head, files, "crashes", (0,)))
    return tuple(found)


def silent_rows(seen: Fleet) -> tuple[tuple[str, str], ...]:
    """Return which nodes have no report, and why: on the card they stand before what others say."""
    alike = seen.part.silent_alike[:_MOST_SILENT]
    return tuple((short([one.node for one in found], 2), found[0].why) for found in alike)


def body(seen: Fleet) -> dict[str, object]:
    """Return the fields of the JSON report."""
    part = seen.part
    return fill(
        shapes.Fleet,
        seen,
        nodes_asked=seen.asked,
        nodes_answered=len(part.answered),
        silent=part.silent,
        groups=[fill(shapes.Group, one, diagnoses=list(one.ids)) for one in part.groups],
        standing=[fill(shapes.Standing, one, processes=one.count) for one in part.standing],
        crashes=[
            fill(shapes.Crash, one, example=dict(zip(("node", "path"), one.example, strict=True)))
            for one in part.crashes
        ],
        kept=[{"hash": a, "path": b, "size_bytes": c} for a, b, c in seen.kept],
    )
