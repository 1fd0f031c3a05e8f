"""Who tries whom in which round: all pairs in ceil(log2 n) rounds.

In round r each node whose number has bit r clear tries all nodes whose number has that bit set and
whose lower bits are its own, and they try it. Two numbers differ first in exactly one bit, so
every pair has its turn once. Half of all pairs are in the first round, a quarter in the second.

What needs a line for itself (throughput) goes in pairs: node i with i xor 2^r in round r.
"""

from collections.abc import Collection

_FEWEST = 4
"""Tries after which a node is given up."""


def how_many(count: int) -> int:
    """Return the number of rounds for so many nodes."""
    return max(0, count - 1).bit_length()


def partners(number: int, count: int, turn: int) -> list[int]:
    """Return whom a node tries in a round, of nodes 0 to count - 1."""
    low = (1 << turn) - 1
    bit = 1 << turn
    first = (number & low) | ((number & bit) ^ bit)
    return list(range(first, count, bit << 1))


def partner(number: int, count: int, turn: int) -> int | None:
    """Return the one whom a node has for itself in a round; None where it rests."""
    other = number ^ (1 << turn)
    return other if other < count else None


def given_up(tried: dict[int, tuple[int, int]]) -> set[int]:
    """Return the nodes that need no more tries: four or more of theirs, and none went well.

    `tried` has, for each node, how many tries it had part in, and how many of them went well.
    """
    return {number for number, (count, good) in tried.items() if count >= _FEWEST and good == 0}


def left_to_try(found: Collection[int], gone: Collection[int]) -> list[int]:
    """Return partners without those that are gone or given up."""
    return [number for number in found if number not in gone]
