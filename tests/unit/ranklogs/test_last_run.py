"""Files that several runs were appended to: the last one is judged."""

from pathlib import Path

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Report

_HEAD = "loading the tokenizer of the model\nthe data loader has started its workers\n"


def _run(hour: int, end: str) -> str:
    steps = "".join(f"2026-01-02 {hour:02}:00:{n:02} step {n} loss 2.{n}\n" for n in range(20))
    return _HEAD + steps + end


def _raised(words: str) -> str:
    return f'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    f()\n{words}\n'


def _report(folder: Path, text: str) -> Report:
    path = folder / "job.log"
    path.write_text(text)
    return analyse([str(path)], RankLogOptions())


def test_the_last_run_is_judged_with_the_lines_of_the_file(tmp_path: Path) -> None:
    text = _run(3, _raised("ValueError: first")) + _run(4, _raised("KeyError: 'second'"))
    report = _report(tmp_path, text)
    assert report.verdict.startswith("KeyError: 'second'")
    assert report.diagnoses[0].evidence[0].where == f"job.log:{text.count(chr(10))}"
    assert ["from line 27 on" in problem.what for problem in report.problems] == [True]


def test_a_run_that_came_through_is_no_failure(tmp_path: Path) -> None:
    text = _run(3, _raised("ValueError: first")) + _run(4, "Training complete.\n")
    assert not _report(tmp_path, text).failed


def test_logs_of_ranks_one_behind_the_other_are_one_run(tmp_path: Path) -> None:
    text = _run(3, _raised("ValueError: first")) + _run(3, "Training complete.\n")
    report = _report(tmp_path, text)
    assert report.problems == ()


def test_a_head_that_comes_again_without_an_end_is_no_new_run(tmp_path: Path) -> None:
    report = _report(tmp_path, _run(3, "") + _run(4, "ValueError: first\n"))
    assert report.problems == ()
    assert report.verdict == "ValueError: first"
