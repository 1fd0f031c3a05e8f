"""Who keeps the others waiting, out of many samples; and what only looks so."""

from collections.abc import Sequence

import pytest

from postmortem.diagnose.hang.pace import paces, slow_ranks
from postmortem.facts.live import Gap, Motion
from postmortem.facts.stackdumps import RankStack
from postmortem.facts.threads import Frame, Thread

SAMPLES = 12
FRAMES = {
    "w": (Frame("all_reduce", "python", file="/x/torch/distributed/distributed_c10d.py", line=9),),
    "c": (Frame("compute", "python", file="/job/train.py", line=3),),
}
"""What a rank does in a sample: w waits, c computes, l loads, T is stopped, a only arrives."""
FRAMES |= {"l": FRAMES["c"], "T": FRAMES["w"], "a": FRAMES["w"]}
GOES, STAYS = Gap(0.5, 0.01, 9), Gap(0.5, 0.0, 0)
STEP = Frame("step", "python", file="/job/train.py", line=9)


def told(rows: Sequence[str], gaps: Sequence[Gap | Sequence[Gap]]) -> list[str]:
    """Return who is slow; of each rank its samples, and what it did between them."""
    stacks = [
        RankStack(
            f"rank {rank}",
            rank,
            None,
            "",
            Thread(tid=1, frames=(*FRAMES[row[number]], STEP)),
            is_running=row[number] in "ca",
            is_stopped=row[number] == "T",
        )
        for number in range(len(rows[0]))
        for rank, row in enumerate(rows)
        if number < len(row)
    ]
    motions = [
        Motion(f"rank {rank}", 0.1, 9, moved=False, gaps=_all(one, len(rows[0]) - 1))
        for rank, one in enumerate(gaps)
    ]
    return [one.label for one in slow_ranks(paces(stacks, motions))]


def _all(one: Gap | Sequence[Gap], count: int) -> tuple[Gap, ...]:
    return (one,) * count if isinstance(one, Gap) else tuple(one)


WAITS = "w" * SAMPLES
ONE_LONG_STEP = [GOES, *[STAYS] * 9, GOES]


@pytest.mark.parametrize(
    ("rows", "gaps", "slow"),
    [
        ([WAITS, "cclccwcclccc"], [GOES, GOES], ["rank 1"]),
        ([WAITS, "l" * SAMPLES], [GOES, STAYS], ["rank 1"]),
        ([WAITS, "cclccwcclccc", WAITS, WAITS], [GOES] * 4, ["rank 1"]),
        # A host of two ranks that is slow as a whole.
        ([WAITS, "cclccwcclccc", WAITS, "c" * SAMPLES], [GOES] * 4, ["rank 1", "rank 3"]),
        (["cwwcwwcwwcww", "T" * SAMPLES], [GOES, GOES], ["rank 1"]),
        # All as slow as each other, in turns or always.
        (["wcwcwcwcwcwc", "cwcwcwcwcwcw"], [GOES, GOES], []),
        (["c" * SAMPLES, "c" * SAMPLES], [GOES, GOES], []),
        (["T" * SAMPLES, "T" * SAMPLES], [GOES, GOES], []),
        # Twice is little: it may be chance.
        ([WAITS, "wcwwcwwwwcww"], [GOES, GOES], []),
        # A checkpoint, an evaluation: the others wait for one thing all the while.
        ([WAITS, "c" * SAMPLES], [STAYS, GOES], []),
        ([WAITS, "wcccccccccww"], [ONE_LONG_STEP, GOES], []),
        # Who waits in a loop for what never comes is taken off its processor, too.
        ([WAITS, "l" * SAMPLES], [Gap(0.5, 0.5, 30), STAYS], []),
        # One that was stopped once and for all hangs; that is told elsewhere.
        ([WAITS, "T" * SAMPLES], [STAYS, STAYS], []),
        # Who was read while it ran has only come to the collective since: it waited for nobody.
        (["a" * SAMPLES, "c" * SAMPLES], [GOES, GOES], []),
        # A stop by a signal is seen in fewer samples.
        (["cwwcww", "TTTTTT"], [GOES, GOES], ["rank 1"]),
        # Too few samples, and a rank that could not be read each time.
        (["w" * 8, "c" * 8], [GOES, GOES], []),
        ([WAITS, "c" * SAMPLES, "w" * 5], [GOES] * 3, []),
    ],
)
def test_slow_ranks(rows: list[str], gaps: list[Gap | Sequence[Gap]], slow: list[str]) -> None:
    assert told(rows, gaps) == slow
