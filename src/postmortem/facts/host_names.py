"""Host names in SLURM's and ClusterShell's short form: ``node[003-005,9],login1``."""

import re

from postmortem.errors import Refusal
from postmortem.facts.rank_sets import intervals
from postmortem.text import some

MOST = 100_000


class NoHosts(Refusal):
    """A list of hosts that is none, as one line."""


def expand(text: str) -> list[str]:
    """Return the hosts of a list, in their order, each once; raises NoHosts."""
    found: dict[str, None] = {}
    for word in _words(text):
        for host in _expanded(word):
            if not re.fullmatch(r"[A-Za-z0-9_.:%@/][A-Za-z0-9_.:%@/-]{0,252}", host):
                raise NoHosts(f"{host!r} is not a host")
            found[host] = None
            if len(found) > MOST:
                raise NoHosts(f"more than {MOST:,} hosts")
    if not found:
        raise NoHosts("the list of hosts is empty")
    return list(found)


def _words(text: str) -> list[str]:
    """Split at commas and white space outside of brackets."""
    words = re.split(r"[,\s]+(?![^\[]*\])", text.strip())
    return [word for word in words if word]


def _expanded(word: str) -> list[str]:
    start = word.find("[")
    if start < 0:
        if "]" in word:
            raise NoHosts(f"{word!r} has a bracket without its other half")
        return [word]
    end = word.find("]", start)
    if end < 0:
        raise NoHosts(f"{word!r} has a bracket without its other half")
    tails = _expanded(word[end + 1 :]) if end + 1 < len(word) else [""]
    found: list[str] = []
    for part in word[start + 1 : end].split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        if match is None:
            raise NoHosts(f"{part!r} is not a range of numbers")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or (last - first + 1) * len(tails) + len(found) > MOST:
            raise NoHosts(f"{part!r} is not a range of at most {MOST:,} numbers")
        width = len(match[1])
        found += [
            f"{word[:start]}{number:0{width}d}{tail}"
            for number in range(first, last + 1)
            for tail in tails
        ]
    return found


def short(names: tuple[str, ...] | list[str], most: int = 6) -> str:
    """Return names in the short form: ``node[003-005]``; of many ranges the first ones."""
    groups: dict[tuple[str, int, str], list[int]] = {}
    plain = []
    for name in names:
        match = re.fullmatch(r"(.*?)(\d{1,9})(\D*)", name)
        if match is None:
            plain.append(name)
        else:
            groups.setdefault((match[1], len(match[2]), match[3]), []).append(int(match[2]))
    rows = plain
    for (before, width, after), numbers in groups.items():
        ranges = [
            f"{a:0{width}d}" + (f"-{b:0{width}d}" if b > a else "") for a, b in intervals(numbers)
        ]
        shown = ranges[:most] + ([f"… {len(ranges) - most} more"] if len(ranges) > most else [])
        inside = ",".join(shown)
        rows.append(f"{before}[{inside}]{after}" if len(numbers) > 1 else before + inside + after)
    return some(rows, most)
