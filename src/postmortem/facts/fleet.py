"""What many nodes answered, folded: equal answers are one, whoever gave them.

`merge` is associative and commutative, and `Part()` is its neutral element: answers may be folded
in any order and in any groups, on any number of machines.
"""

from __future__ import annotations

from collections.abc import Iterable

from postmortem.records import record
from postmortem.text import without_numbers

GROUP = 64
"""Parts that are merged at a time."""


@record
class Group:
    """Nodes whose reports say the same, numbers in it apart."""

    outcome: str
    ids: tuple[str, ...]
    words: str
    """The verdict without its numbers: what makes them one group."""
    verdict: str
    """The verdict of one of them: the first in order."""
    nodes: tuple[str, ...]


@record
class Standing:
    """Ranks whose main threads stand in the same place."""

    frames: tuple[str, ...]
    doing: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    unnumbered: int = 0
    """Processes without a rank."""

    @property
    def count(self) -> int:
        """How many processes stand there."""
        return len(self.ranks) + self.unnumbered


@record
class Crash:
    """Cores with one signature."""

    hash: str
    summary: str
    count: int
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    example: tuple[str, str]
    """Node and path of one of them: the first in order."""


@record
class Silent:
    """A node without a report."""

    node: str
    why: str


@record
class Trouble:
    """Evidence that nodes could not read for the same reason, numbers in it apart."""

    words: str
    """The reason without its numbers: what makes them one."""
    where: str
    """The node and the place of one of them: the first in order."""
    what: str
    count: int


@record
class Part:
    """What some of the nodes answered."""

    answered: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    standing: tuple[Standing, ...] = ()
    crashes: tuple[Crash, ...] = ()
    silent: tuple[Silent, ...] = ()
    troubles: tuple[Trouble, ...] = ()

    @property
    def silent_alike(self) -> list[list[Silent]]:
        """Nodes without a report by the reason, numbers apart; most nodes first."""
        groups: dict[str, list[Silent]] = {}
        for one in self.silent:
            groups.setdefault(without_numbers(one.why), []).append(one)
        return sorted(groups.values(), key=lambda rows: (-len(rows), rows[0].node))


@record
class Fleet:
    """What all nodes answered to one command."""

    command: str
    engine: str
    asked: int
    part: Part
    kept: tuple[tuple[str, str, int], ...] = ()
    """Slim cores that were fetched: signature, file, bytes."""


def merge(parts: Iterable[Part]) -> Part:
    """Return the fold of parts that have no node in common."""
    answered: list[str] = []
    groups: dict[tuple[str, tuple[str, ...], str], list[Group]] = {}
    standing: dict[tuple[tuple[str, ...], str], list[Standing]] = {}
    crashes: dict[str, list[Crash]] = {}
    silent: list[Silent] = []
    troubles: dict[str, list[Trouble]] = {}
    for part in parts:
        answered += part.answered
        silent += part.silent
        for group in part.groups:
            groups.setdefault((group.outcome, group.ids, group.words), []).append(group)
        for stand in part.standing:
            standing.setdefault((stand.frames, stand.doing), []).append(stand)
        for crash in part.crashes:
            crashes.setdefault(crash.hash, []).append(crash)
        for trouble in part.troubles:
            troubles.setdefault(trouble.words, []).append(trouble)
    return Part(
        tuple(sorted(answered)),
        tuple(_group(rows) for _, rows in sorted(groups.items())),
        tuple(_standing(rows) for _, rows in sorted(standing.items())),
        tuple(_crash(rows) for _, rows in sorted(crashes.items())),
        tuple(sorted(silent, key=lambda one: (one.node, one.why))),
        tuple(_trouble(rows) for _, rows in sorted(troubles.items())),
    )


def merge_all(parts: Iterable[Part]) -> Part:
    """Return the fold of many parts, 64 at a time, as they come: few are held at once."""
    levels: list[list[Part]] = [[]]
    for part in parts:
        levels[0].append(part)
        for index, level in enumerate(levels):
            if len(level) < GROUP:
                break
            if index + 1 == len(levels):
                levels.append([])
            levels[index + 1].append(merge(level))
            level.clear()
    return merge(part for level in levels for part in level)


def _nodes(rows: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({node for row in rows for node in row}))


def _trouble(rows: list[Trouble]) -> Trouble:
    first = min(rows, key=lambda one: (one.where, one.what))
    return Trouble(first.words, first.where, first.what, sum(one.count for one in rows))


def _group(rows: list[Group]) -> Group:
    if len(rows) == 1:
        return rows[0]
    first = min(rows, key=lambda one: (one.nodes, one.verdict))
    nodes = _nodes(one.nodes for one in rows)
    return Group(first.outcome, first.ids, first.words, first.verdict, nodes)


def _standing(rows: list[Standing]) -> Standing:
    if len(rows) == 1:
        return rows[0]
    return Standing(
        rows[0].frames,
        rows[0].doing,
        tuple(sorted(rank for one in rows for rank in one.ranks)),
        _nodes(one.nodes for one in rows),
        sum(one.unnumbered for one in rows),
    )


def _crash(rows: list[Crash]) -> Crash:
    if len(rows) == 1:
        return rows[0]
    return Crash(
        rows[0].hash,
        min(one.summary for one in rows),
        sum(one.count for one in rows),
        tuple(sorted({rank for one in rows for rank in one.ranks})),
        _nodes(one.nodes for one in rows),
        min(one.example for one in rows),
    )
