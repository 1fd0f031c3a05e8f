"""Notebooks: their outputs are a log, their errors tracebacks."""

import json
from pathlib import Path

import pytest

from builders.prose import Prose
from builders.ranklogs import place_of, raised_first
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Outcome, Report

Cell = dict[str, object]

_RED = "\x1b[0;31m"


def _cell(count: int, *outputs: dict[str, object]) -> Cell:
    code = {"cell_type": "code", "execution_count": count, "metadata": {}}
    return {
        **code,
        "outputs": list(outputs),
        "source": ["import this\n", "ValueError: no output\n"],
    }


def _printed(*lines: str) -> dict[str, object]:
    return {"name": "stdout", "output_type": "stream", "text": [f"{line}\n" for line in lines]}


def _error(name: str, value: str, *frames: str) -> dict[str, object]:
    head = f"{_RED}{name}\x1b[0m            Traceback (most recent call last)"
    parts = ["-" * 75, head, *frames, f"{_RED}{name}\x1b[0m: {value}"]
    return {"ename": name, "evalue": value, "output_type": "error", "traceback": parts}


def _report(folder: Path, *cells: Cell, indent: int | None = 1, cut: int | None = None) -> Report:
    path = folder / "train.ipynb"
    notebook = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook, indent=indent)[:cut])
    return analyse([str(path)], RankLogOptions())


_NEW = (
    f"Cell {_RED}In[7], line 2\x1b[0m\n      1 a\n----> 2 fit()\n",
    "File ~/lab/train.py:31, in fit(batch)\n     30 x\n---> 31 step()\n",
)
_OLD = (
    "<ipython-input-7-0f> in <module>\n      1 a\n----> 2 fit()\n",
    "~/lab/train.py in fit(batch)\n     30 x\n---> 31 step()\n",
)


def test_the_error_of_the_cell_that_ran_last_is_the_failure(tmp_path: Path) -> None:
    for frames in (_NEW, _OLD):
        lines = [f"epoch {n} loss 2.1" for n in range(60)]
        below = _cell(3, _printed(*lines))
        report = _report(tmp_path, _cell(7, _error("ValueError", "bad batch", *frames)), below)
        assert raised_first(report) == (None, "ValueError: bad batch")
        assert place_of(report) == ("train.py", 31, "fit")
        where = report.diagnoses[0].evidence[0].where
        cited = (
            (tmp_path / "train.ipynb").read_text().split("\n")[int(where.rpartition(":")[2]) - 1]
        )
        assert "bad batch" in cited


def test_an_error_after_which_other_cells_ran_is_left_out_and_said_to_be(
    tmp_path: Path, prose: Prose
) -> None:
    last = _cell(9, _printed("loss 2.1", "loss 2.0"))
    report = _report(tmp_path, _cell(7, _error("ValueError", "bad batch", *_NEW)), last)
    assert (report.outcome, report.failed) == (Outcome.UNKNOWN, False)
    prose(*[problem.what for problem in report.problems], report.verdict)


def test_what_an_editor_says_of_a_kernel_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    says = ["\x1b[1;31mThe kernel of 'lab' has no ipykernel.\n", "\x1b[1;31mInstall it"]
    unnamed: dict[str, object] = {**_error("", ""), "traceback": says}
    report = _report(tmp_path, {**_cell(7, unnamed), "execution_count": None})
    assert report.failed
    assert "has no ipykernel" in report.verdict
    later = _report(tmp_path, _cell(7, unnamed), _cell(8, _printed("loss 2.1")))
    assert (later.failed, "[7]" in later.verdict) == (False, True)
    assert "[7]" not in _report(tmp_path, _cell(7, _printed("loss 2.1"))).verdict


@pytest.mark.parametrize(
    ("sets", "lacks", "said"),
    [
        ("rows, size = load()\n", "rows", "ValueError: bad batch"),
        ("print(rows == 3)\n", "rows", "NameError: name 'rows' is not defined"),
        ("rows = load()\n", "other", "NameError: name 'other' is not defined"),
    ],
)
def test_a_cell_that_failed_explains_the_name_that_the_last_one_lacks(
    tmp_path: Path, sets: str, lacks: str, said: str
) -> None:
    failed = {**_cell(7, _error("ValueError", "bad batch", *_NEW)), "source": [sets]}
    last = _cell(9, _error("NameError", f"name '{lacks}' is not defined", *_OLD))
    report = _report(tmp_path, failed, last)
    assert raised_first(report) == (None, said)
    assert len(report.problems) == 1


def test_numbers_of_several_kernels_order_nothing(tmp_path: Path) -> None:
    before = [_cell(n, _printed(f"loss {n}.0")) for n in (39, 40, 5, 6)]
    failed = _cell(6, _error("ValueError", "bad batch", *_NEW))
    assert raised_first(_report(tmp_path, *before, failed)) == (None, "ValueError: bad batch")
    assert not _report(tmp_path, failed, *before).failed
    assert not _report(tmp_path, *before[:3], failed).failed  # one kernel: 40 came later


def test_an_interrupted_cell_was_stopped_from_outside(tmp_path: Path) -> None:
    report = _report(tmp_path, _cell(7, _error("KeyboardInterrupt", "", *_NEW)))
    assert [one.id for one in report.diagnoses] == ["stopped_from_outside"]


def test_source_is_no_output(tmp_path: Path) -> None:
    report = _report(tmp_path, _cell(7, _printed("loss 2.1")))
    assert (report.outcome, report.failed) == (Outcome.UNKNOWN, False)


def test_a_notebook_in_one_line_is_read_too(tmp_path: Path) -> None:
    report = _report(tmp_path, _cell(7, _error("ValueError", "bad batch", *_NEW)), indent=None)
    assert raised_first(report) == (None, "ValueError: bad batch")
    assert place_of(report) == ("train.py", 31, "fit")


@pytest.mark.parametrize("indent", [None, 1])
def test_an_error_without_a_traceback_is_one(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "train.ipynb"
    error = {"ename": "ValueError", "evalue": "bad batch", "output_type": "error"}
    stream = {"name": "stdout", "output_type": "stream", "text": "loss 2.1\nloss 2.0\n"}
    notebook = {"cells": [_cell(1, stream, error)], "metadata": {}, "nbformat": 4}
    path.write_text(json.dumps(notebook, indent=indent) + "\n")
    report = analyse([str(path)], RankLogOptions())
    assert report.outcome is Outcome.FAILED
    assert "ValueError: bad batch" in report.diagnoses[0].evidence[0].what


def test_what_was_printed_as_one_text_is_read(tmp_path: Path) -> None:
    output = {"name": "stderr", "output_type": "stream", "text": "step 1\nSegmentation fault\n"}
    report = _report(tmp_path, _cell(1, output))
    assert report.failed
    assert "SIGSEGV" in report.diagnoses[0].evidence[0].what


def test_a_notebook_that_is_cut_is_read_as_text_and_said_to_be(tmp_path: Path) -> None:
    report = _report(tmp_path, _cell(7, _error("ValueError", "bad batch", *_NEW)), cut=400)
    assert any("notebook" in problem.what for problem in report.problems)


def test_a_count_that_is_no_number_is_none(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    notebook = {"cells": [_cell(1, _printed("x"))], "metadata": {}, "nbformat": 4}
    path.write_text(json.dumps(notebook, indent=1).replace('count": 1', 'count": Infinity'))
    assert analyse([str(path)], RankLogOptions()).outcome is Outcome.UNKNOWN


def test_the_last_output_of_a_notebook_without_errors_is_told(tmp_path: Path) -> None:
    report = _report(tmp_path, _cell(1, _printed("reading")), _cell(2, _printed("accuracy 0.71")))
    assert not report.failed
    assert report.verdict.endswith("accuracy 0.71")


@pytest.mark.parametrize(("word", "failed"), [("shard 3 is lost", False), ("ERROR shard 3", True)])
def test_a_word_in_an_output_is_no_failed_cell(tmp_path: Path, word: str, failed: bool) -> None:
    report = _report(tmp_path, _cell(1, _printed("reading", word)))
    assert report.failed is failed
    assert word in report.verdict


def test_a_kernel_whose_parent_is_gone_was_stopped_from_outside(tmp_path: Path) -> None:
    gone = "[IPKernelApp] WARNING | Parent appears to have exited, shutting down.\n"
    (tmp_path / "kernel.log").write_text("epoch 3 loss 2.0\n" + gone)
    report = analyse([str(tmp_path / "kernel.log")], RankLogOptions())
    assert [one.id for one in report.diagnoses] == ["stopped_from_outside"]
