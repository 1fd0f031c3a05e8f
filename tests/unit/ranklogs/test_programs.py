"""Of several programs in one log: which of them is the job, and which one another outlived."""

from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse

_KILLED = "run.sh: line 3:  4711 Killed                  python t.py\n"


def _steps(first: int, last: int, of: str = "epoch") -> str:
    return "".join(f"{of} {n} of 40: loss 2.{n}\n" for n in range(first, last))


@pytest.mark.parametrize(
    ("behind", "failed"),
    [
        (_steps(1, 9, "part"), False),
        (_steps(1, 9, "part") + "Evaluation done.\n", False),
        (_steps(1, 9), False),
        ("Training done\n", True),  # as the script says, whatever became of its program
        (_steps(21, 29), True),  # of a process beside it
        (_steps(1, 9, "part") + "KeyError: 'lr'\n", True),
    ],
)
def test_a_program_that_was_killed_is_the_job_unless_another_one_works_behind(
    tmp_path: Path, behind: str, failed: bool
) -> None:
    path = tmp_path / "job.log"
    path.write_text(_steps(1, 20) + _KILLED + behind)
    report = analyse([str(path)], RankLogOptions())
    assert report.failed is failed
    last = behind.endswith("'lr'\n")
    earlier: Any = report.body["earlier"]
    ids = [one.id for one in report.diagnoses]
    assert ids == (["last_words"] if last else ["process_ended"] if failed else [])
    assert [(row["text"], row["line"]) for row in earlier] == (
        [] if failed and not last else [(_KILLED.strip(), 20)]
    )
