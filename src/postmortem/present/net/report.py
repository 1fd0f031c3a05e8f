"""The report of a check of the network: blocks, and the fields of ``kind net``."""

import statistics

from postmortem.diagnose.net.node_missing import parting
from postmortem.facts.net import Met, NetCheck, Node, Target
from postmortem.present.net.card import stage_words
from postmortem.report.blocks import Block, KeyValues, Table
from postmortem.report.contract import fill
from postmortem.report.contract.net import Lost, Net, Probes, Stage
from postmortem.text import counted, size, some

_MOST_ROWS = 40


def blocks(seen: NetCheck, notes: tuple[str, ...]) -> tuple[Block, ...]:
    """Return what is shown beside the diagnoses."""
    found: list[Block] = []
    rows = [
        (str(one.name), str(one.outcome), f"{one.seconds:.2f} s", stage_words(one))
        for one in seen.stages
    ]
    rows += _collective_stages(seen)
    if rows:
        found.append(Table(("stage", "", "took", ""), tuple(rows), title="stages"))
    if seen.target is not None:
        found.append(KeyValues(tuple(_target(seen.target)), title=seen.target.place))
    if seen.world == 1 or len(seen.nodes) == 1:
        found += [_interfaces(node) for node in seen.nodes]
    choices = tuple(
        (
            node.label,
            one.library,
            one.interface or "–",
            one.address or "–",
            f"{one.variable}={one.value}" if one.value else "its own choice",
            one.fault or "",
        )
        for node in seen.nodes[:_MOST_ROWS]
        for one in node.choices
    )
    if choices:
        head = ("node", "library", "interface", "address", "by", "")
        found.append(Table(head, choices, title="what each library takes"))
    summary = tuple(_summary(seen))
    if summary:
        found.append(KeyValues(summary, title="pairs"))
    if notes:
        found.append(KeyValues(tuple(("not seen", note) for note in notes)))
    return tuple(found)


def _collective_stages(seen: NetCheck) -> list[tuple[str, str, str, str]]:
    """Return the stages within the all-reduce, each with the slowest node's time."""
    names = ("import", "store", "group", "all_reduce")
    rows = []
    done = [one for one in seen.collectives if one.stage == "done"]
    for index, name in enumerate(names):
        times = [one.seconds[index] for one in done if len(one.seconds) > index]
        if times:
            rows.append((f"  {name}", "ok", f"{max(times):.2f} s", "slowest node"))
    return rows


def _target(target: Target) -> list[tuple[str, str]]:
    by = f" ({target.lookup.source})" if target.lookup.source else ""
    rows = [("name", (", ".join(target.lookup.addresses[:4]) or str(target.lookup.error)) + by)]
    for one in target.attempts[:8]:
        took = f", {one.seconds * 1e3:.1f} ms" if one.met is Met.OK else ""
        via = f" from {one.source} ({one.interface or '?'})" if one.source else ""
        rows.append(
            (one.address, f"{one.met}{took}{via}" + (f": {one.detail}" if one.detail else ""))
        )
    if target.back is not None:
        rows.append(("way back", str(target.back)))
    if target.listened is not None:
        rows.append(("listened", f"{target.listened:.0f} s, and nobody came"))
    return rows


def _interfaces(node: Node) -> Table:
    rows = tuple(
        (
            one.name,
            "up" if one.up else "down",
            ", ".join(one.addresses[:3]),
            str(one.mtu),
            f"{one.speed_mbit:,} Mbit/s" if one.speed_mbit else "",
        )
        for one in node.interfaces[:_MOST_ROWS]
    )
    return Table(("interface", "", "addresses", "MTU", "speed"), rows, title="interfaces here")


def _summary(seen: NetCheck) -> list[tuple[str, str]]:
    rows = []
    if seen.probes:
        good = sum(one.met is Met.OK for one in seen.probes)
        rows.append(
            ("tried", f"{len(seen.probes):,} in {counted(seen.rounds, 'round')}, {good:,} work")
        )
        trips = [one.round_trip for one in seen.probes if one.round_trip is not None]
        if trips:
            rows.append(
                (
                    "round trip",
                    f"{statistics.median(trips) * 1e3:.2f} ms median, {max(trips) * 1e3:.2f} ms "
                    "at most, with both programs' time",
                )
            )
        flaky = [one for one in seen.probes if one.first_try is not None and one.met is Met.OK]
        if flaky:
            pairs = some([f"{one.source} to {one.target}" for one in flaky], 4)
            rows.append(("second try", f"worked for {len(flaky)} that had failed: {pairs}"))
    if seen.speeds:
        rates = [int(one.bytes_per_second) for one in seen.speeds]
        middle = size(int(statistics.median(rates)))
        rows.append(
            ("throughput", f"{middle}/s median, {size(min(rates))}/s least, one connection each")
        )
    if seen.lost:
        rows.append(("lost", some([f"node {one.number} ({parting(one)})" for one in seen.lost], 6)))
    return rows


def body(seen: NetCheck) -> dict[str, object]:
    """Return the fields of the JSON report."""
    # Tuples: a list is taken as JSON that is made already.
    again = tuple(one for one in seen.probes if one.first_try is not None and one.met is Met.OK)
    failed = tuple(one for one in seen.probes if one.met is not Met.OK)
    probes = fill(Probes, tried=len(seen.probes), failed=failed, second_try=again)
    stages = [fill(Stage, one, detail=stage_words(one)) for one in seen.stages]
    lost = [fill(Lost, one, when=parting(one)) for one in seen.lost]
    return fill(Net, seen, world_size=seen.world, stages=stages, probes=probes, lost=lost)
