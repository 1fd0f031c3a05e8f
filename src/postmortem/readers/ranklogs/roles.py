"""Role and local rank in torchrun's new prefix, which puts nothing between them; ranks of Ray.

``--role node1 --tee 3`` gives ``[node10]:`` for local rank 0 (torch/distributed/elastic/agent).
One such prefix can be read in two ways; all of a log together mostly in one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.known_lines import KnownLines
from postmortem.readers.ranklogs.writers import Label
from postmortem.records import replace

if TYPE_CHECKING:
    from postmortem._native import RawRankLog

_MOST_DIGITS = 4
_NAMED = Pattern(r"^(?i:rank)[-_]?(\d{1,7})$")


def with_roles(labels: Iterable[Label]) -> list[Label]:
    """Return the labels with digits moved from the local rank to the role where they belong.

    What reads like a node and says that it is a rank is one: ``rank1: ``, ``RANK_1 | ``.
    """
    kept = list(map(_as_rank, labels))
    numbers: dict[str, set[int]] = defaultdict(set)
    for label in kept:
        host, local = label.raw["host"], label.raw["local"]
        if host and local is not None and not host[-1].isdecimal():
            numbers[host].add(local)
    widths = {host: _digits_of_role(found) for host, found in numbers.items()}
    return [_moved(label, widths.get(label.raw["host"] or "", 0)) for label in kept]


def _as_rank(label: Label) -> Label:
    raw = label.raw
    if not raw["host"] or raw["host"][0] not in "rR" or (raw["rank"], raw["local"]) != (None, None):
        return label
    named = _NAMED.search(raw["host"])
    return replace(label, raw={**raw, "host": None, "rank": int(named[1])}) if named else label


def _digits_of_role(numbers: set[int]) -> int:
    """Return how many first digits are the role's, so that each role has local ranks 0 to n-1."""
    texts = [str(number) for number in numbers]
    for width in range(_MOST_DIGITS):
        if any(len(text) <= width for text in texts):
            return 0
        groups: dict[str, set[int]] = defaultdict(set)
        for text in texts:
            rest = text[width:]
            if rest != str(int(rest)):
                return 0
            groups[text[:width]].add(int(rest))
        sizes = {len(group) for group in groups.values()}
        whole = all(group == set(range(len(group))) for group in groups.values())
        if whole and len(sizes) == 1 and (width == 0 or sizes.pop() > 1):
            return width
    return 0


def _moved(label: Label, width: int) -> Label:
    host, local = label.raw["host"], label.raw["local"]
    if not width or not host or local is None:
        return label
    digits = str(local)
    raw = label.raw.copy()
    raw["host"], raw["local"] = host + digits[:width], int(digits[width:])
    return replace(label, raw=raw)


def with_ray_ranks(
    labels: list[Label], logs: Iterable[RawRankLog], known: KnownLines
) -> list[Label]:
    """Return the labels of Ray's workers with their ranks, where Ray Train tells them."""
    if not any(label.raw["worker"] for label in labels):
        return labels
    joined: dict[int, int] = {}
    of_label: dict[int, int] = {}
    base = 0
    for log in logs:
        for region in log["regions"]:
            for _, _, text in region[3]:
                found = known.of(text)
                listed, joins = found.get("ray-rank-listed"), found.get("ray-rank-joins")
                if listed:
                    joined[int(listed["pid"])] = int(listed["rank"])
                elif joins:
                    of_label[base + region[0]] = int(joins["rank"])
        base += len(log["labels"])
    return [
        label
        if rank is None or label.raw["pid"] is None
        else replace(label, raw={**label.raw, "rank": rank})
        for index, label in enumerate(labels)
        for rank in [of_label.get(index, joined.get(label.raw["pid"] or -1))]
    ]
