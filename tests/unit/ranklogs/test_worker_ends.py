"""A supervisor that loses its workers to the end of its log, and one that goes on."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse

_LOST = (
    "distributed.nanny.memory - WARNING - Worker tcp://n1:4{0} (pid={0}) exceeded 95% memory"
    " budget. Restarting...\n"
    "distributed.nanny - INFO - Worker process {0} was killed by signal 15\n"
    "distributed.nanny - WARNING - Restarting worker\n"
)
_FAILED = "distributed.nanny - INFO - Worker process {0} exited with status 1\n"
_STARTED = "distributed.worker - INFO -       Start worker at:     tcp://n1:4{0}\n"
_WORK = "".join(f"trainer - INFO - step {n} loss 0.{n}\n" for n in range(5))


@pytest.mark.parametrize(
    ("lost", "times", "behind", "failed"),
    [
        (_LOST, 5, "", True),
        (_FAILED, 5, "", True),
        (_LOST, 1, "", False),
        (_LOST, 5, _STARTED.format(77) + _WORK, False),
        (_STARTED + _WORK + _LOST, 2, "", False),
        ("distributed.nanny - INFO - Worker process {0} exited with status 0\n", 5, "", False),
    ],
)
def test_workers_that_are_lost_to_the_end(
    tmp_path: Path, lost: str, times: int, behind: str, failed: bool
) -> None:
    text = "".join(f"{_STARTED}{lost}".format(910 + n) for n in range(times))
    (tmp_path / "nanny.log").write_text(text + behind)
    report = analyse([str(tmp_path / "nanny.log")], RankLogOptions())
    assert report.failed is failed
