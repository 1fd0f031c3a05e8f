"""Which rank alone names another version of something than all others, where each begins to log."""

import re
from collections import Counter
from collections.abc import Mapping

from postmortem.facts.versions import OddVersion

_SAID = re.compile(
    rb"(?<![\w./-])([A-Za-z][\w-]{1,40})(?:==|[ =:]{1,2})v?"
    rb"(\d{1,4}\.\d{1,4}\.\d[\w+-]{0,24})(?![\w.])"
)
_FEWEST = 3
"""Ranks: of two nobody can say which is the odd one."""
_MOST = 200
"""Versions in the head of one log."""


def odd_version(heads: Mapping[int, tuple[str, bytes]]) -> OddVersion | None:
    """Return the rank that is alone with a version of something; None where several are.

    `heads` are, by rank, where its own lines are and the first of them. A rank that names two
    versions of one thing tells nothing of it.
    """
    told = {rank: _versions(head) for rank, (_, head) in heads.items()}
    names = dict.fromkeys(name for versions in told.values() for name in versions)
    odd: dict[int, OddVersion] = {}
    for name in names:
        known = {rank: found[name] for rank, found in told.items() if name in found}
        counts = Counter(version for version, _ in known.values())
        if len(known) < _FEWEST or len(known) < len(told) or len(counts) != 2:
            continue
        (usual, many), (other, few) = counts.most_common()
        if few > 1 or many < 2:
            continue
        rank, line = next((r, line) for r, (version, line) in known.items() if version == other)
        odd.setdefault(rank, OddVersion(rank, name, other, usual, many, f"{heads[rank][0]}:{line}"))
    return next(iter(odd.values())) if len(odd) == 1 else None


def _versions(head: bytes) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    twice = set()
    for number, match in enumerate(_SAID.finditer(head)):
        if number == _MOST:
            break
        name, version = match[1].decode(), match[2].decode()
        line = head.count(b"\n", 0, match.start()) + 1
        if found.setdefault(name, (version, line))[0] != version:
            twice.add(name)
    return {name: told for name, told in found.items() if name not in twice}
