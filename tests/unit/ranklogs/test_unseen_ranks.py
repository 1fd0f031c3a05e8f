"""Of ranks whose stacks are not there, where all others wait in one collective."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Report

_STACK = """Current thread 0x00007f843b1bcb80 (most recent call first):
  File "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252 in {}
  File "/home/user/train.py", line 55 in main
"""


def _report(folder: Path, ranks: int, head: str, call: str = "all_reduce") -> Report:
    for rank in range(ranks):
        line = f"2026-01-02 03:04:05,678 INFO {head.format(rank=rank)}\n"
        (folder / f"rank{rank}.log").write_text(line)
        (folder / f"stack.rank{rank}.txt").write_text(_STACK.format(call))
    return analyse([str(folder)], RankLogOptions())


@pytest.mark.parametrize("head", ["train: rank {rank} of 4 starts", "[rank {rank}/4] starts"])
def test_who_is_missing_is_told_as_likely(tmp_path: Path, head: str) -> None:
    report = _report(tmp_path, 3, head)
    assert report.failed
    assert [row["rank"] for row in report.body["candidates"]] == [3]
    assert report.body["world_size_source"] == "the heads of the logs"


@pytest.mark.parametrize(
    ("ranks", "head"),
    [
        (4, "train: rank {rank} of 4 starts"),
        (3, "train: tp rank {rank} of 4 starts"),
        (3, "train: starts"),
        (2, "train: rank {rank} of 4 starts"),
    ],
    ids=["all are there", "a smaller group", "how many is not told", "half of them"],
)
def test_nobody_is_missed(tmp_path: Path, ranks: int, head: str) -> None:
    assert not _report(tmp_path, ranks, head).failed
