"""Of several programs in one log: which of them is the job, and which one another outlived."""

from pathlib import Path
from typing import Any

import pytest

from builders.ranklogs import raised_first, report_of
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


_TABLE = (
    "[rank1]: KeyError: 'lr'\n"
    "E0102 03:04:05.678000 9 torch/distributed/elastic/multiprocessing/api.py:988] failed "
    "(exitcode: 1) local_rank: 1 (pid: 11) of binary: /usr/bin/python\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    "train.py FAILED\n"
)


@pytest.mark.parametrize(("between", "line"), [("", 7), (_steps(1, 4), 13)])
def test_of_an_earlier_run_its_own_error_is_quoted_not_the_launchers_word(
    tmp_path: Path, between: str, line: int
) -> None:
    own, word = _TABLE.split("\n", 1)
    first, second = (
        f"2026-01-02 0{hour}:00:00 INFO start of lum train\n"
        f"2026-01-02 0{hour}:00:01 INFO the model has 12 layers\n"
        for hour in (2, 4)
    )
    (tmp_path / "job.log").write_text(
        first + _steps(1, 5) + own + "\n" + between + word + second + _steps(1, 9)
    )
    earlier: Any = analyse([str(tmp_path / "job.log")], RankLogOptions()).body["earlier"]
    assert [row["line"] for row in earlier] == [line]


@pytest.mark.parametrize(
    ("signal", "step"),
    [("SIGXCPU", "ulimit -t"), ("SIGHUP", "nohup"), ("SIGSEGV", "postmortem core")],
)
def test_steps_suit_the_signal_that_a_run_saw(tmp_path: Path, signal: str, step: str) -> None:
    path = tmp_path / "endings.txt"
    path.write_text(f"the program (pid 4711) was killed by {signal}\n")
    (found,) = analyse([str(path)], RankLogOptions()).diagnoses
    assert found.id == "process_ended"
    assert step in " ".join(found.next_steps)


@pytest.mark.parametrize(
    ("function", "first"), [("spawn_main", "OSError"), ("main", "RuntimeError")]
)
def test_what_a_spawned_process_raised_is_why_its_parent_lost_it(
    tmp_path: Path, function: str, first: str
) -> None:
    text = "".join(f"step {i} loss 2.{i}\n" for i in range(9))
    text += "Traceback (most recent call last):\n"
    text += '  File "<string>", line 1, in <module>\n'
    text += f'  File "/lib/multiprocessing/spawn.py", line 122, in {function}\n    run()\n'
    text += '  File "/lib/torch/__init__.py", line 137, in <module>\n    raise err\n'
    text += "OSError: [Errno 12] Cannot allocate memory\n"
    text += 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\n'
    text += "RuntimeError: DataLoader worker (pid(s) 71) exited unexpectedly\n"
    rank, said = raised_first(report_of(tmp_path, text))
    assert (rank, said.partition(":")[0]) == (None, first)
