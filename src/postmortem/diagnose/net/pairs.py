"""The least that explains which pairs failed: nodes, groups, then single links."""

from collections.abc import Mapping

from postmortem.records import record

Pair = tuple[int, int]
"""Who tried whom."""


@record
class BadNode:
    """A node that most others cannot talk with, in one direction or both."""

    number: int
    direction: str
    """``both``; ``in``: others do not reach it; ``out``: it does not reach others."""
    failed: int
    tried: int


@record
class BadLink:
    """Two nodes that cannot talk, while both can with others."""

    first: int
    second: int
    both: bool
    """Whether it fails in both directions; else the first does not reach the second."""


@record
class Explained:
    """What explains all pairs that failed."""

    everything: bool = False
    """No pair of three or more nodes works: nobody can be singled out."""
    groups: tuple[tuple[int, ...], ...] = ()
    """Groups of two or more nodes, each well within itself, none with another."""
    nodes: tuple[BadNode, ...] = ()
    links: tuple[BadLink, ...] = ()


def explain(tried: Mapping[Pair, bool]) -> Explained:
    """Return the least that explains what failed; `tried` says whether each pair worked."""
    failed = {pair for pair, works in tried.items() if not works}
    if not failed:
        return Explained()
    numbers = sorted({number for pair in tried for number in pair})
    if len(failed) == len(tried) and len(numbers) > 2:
        return Explained(everything=True)
    groups = _groups(tried, numbers)
    if groups:
        group_of = {number: index for index, group in enumerate(groups) for number in group}
        failed = {pair for pair in failed if _same_group(pair, group_of)}
        tried = {pair: works for pair, works in tried.items() if _same_group(pair, group_of)}
    nodes = []
    while (bad := _worst(tried, failed)) is not None:
        nodes.append(bad)
        failed = {pair for pair in failed if not _explained_by(pair, bad)}
        tried = {pair: works for pair, works in tried.items() if not _explained_by(pair, bad)}
    return Explained(False, groups, tuple(nodes), _links(failed, tried))


def _same_group(pair: Pair, group_of: Mapping[int, int]) -> bool:
    """Return whether a pair is of one group; a node alone is in none, and counts with all."""
    first, second = group_of.get(pair[0]), group_of.get(pair[1])
    return first is None or second is None or first == second


def _groups(tried: Mapping[Pair, bool], numbers: list[int]) -> tuple[tuple[int, ...], ...]:
    """Return groups between which no try went well, if two or more of them are two or more."""
    parent = {number: number for number in numbers}

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for (first, second), works in tried.items():
        if works:
            parent[root(first)] = root(second)
    found: dict[int, list[int]] = {}
    for number in numbers:
        found.setdefault(root(number), []).append(number)
    large = sorted(tuple(group) for group in found.values() if len(group) > 1)
    return tuple(large) if len(large) > 1 else ()


def _worst(tried: Mapping[Pair, bool], failed: set[Pair]) -> BadNode | None:
    """Return the node with more than half of its tries failed, two or more: the worst of them."""
    incoming: dict[int, list[int]] = {}
    outgoing: dict[int, list[int]] = {}
    for pair in tried:
        bad = pair in failed
        for counts, number in ((outgoing, pair[0]), (incoming, pair[1])):
            row = counts.setdefault(number, [0, 0])
            row[0] += bad
            row[1] += 1
    best: tuple[tuple[float, int, int], BadNode] | None = None
    for number in sorted(incoming.keys() | outgoing.keys()):
        into, out = incoming.get(number, [0, 0]), outgoing.get(number, [0, 0])
        if _most(into) and _most(out):
            direction, failures, count = "both", into[0] + out[0], into[1] + out[1]
        elif _most(into):
            direction, (failures, count) = "in", into
        elif _most(out):
            direction, (failures, count) = "out", out
        else:
            continue
        weight = (failures / count, failures, -number)
        if best is None or weight > best[0]:
            best = weight, BadNode(number, direction, failures, count)
    return best[1] if best is not None else None


def _most(counts: list[int]) -> bool:
    return counts[0] >= 2 and counts[0] * 2 > counts[1]


def _explained_by(pair: Pair, bad: BadNode) -> bool:
    if bad.direction == "in":
        return pair[1] == bad.number
    if bad.direction == "out":
        return pair[0] == bad.number
    return bad.number in pair


def _links(failed: set[Pair], tried: Mapping[Pair, bool]) -> tuple[BadLink, ...]:
    links = []
    for first, second in sorted(failed):
        back = (second, first)
        if back in failed:
            if first < second:
                links.append(BadLink(first, second, both=True))
        else:
            links.append(BadLink(first, second, both=back not in tried))
    return tuple(links)
