"""Sets of ranks in few words: ``0-2, 4-1023``."""

from collections.abc import Iterable

from postmortem.text import more


def intervals(ranks: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return the ranks as (first, last) pairs, in order."""
    found: list[tuple[int, int]] = []
    for rank in sorted(set(ranks)):
        if found and found[-1][1] + 1 == rank:
            found[-1] = (found[-1][0], rank)
        else:
            found.append((rank, rank))
    return tuple(found)


def rank_words(ranks: Iterable[int], *, most: int = 8) -> str:
    """Return ``"0-2, 4"``; of many intervals the first `most`, and how many ranks are left out."""
    found = intervals(ranks)
    words = [str(first) if first == last else f"{first}-{last}" for first, last in found[:most]]
    left = sum(last - first + 1 for first, last in found[most:])
    return ", ".join(words) + more(left)
