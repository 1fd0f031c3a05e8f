"""Whether work went on behind an error: by the forms of lines, in any language."""

from pathlib import Path

import pytest

from builders.prose import Prose
from builders.ranklogs import raised_first, report_of

_ERROR = (
    "Traceback (most recent call last):\n"
    '  File "/job/fetch.py", line 31, in fetch\n'
    "    return read(url)\n"
    "TimeoutError: the mirror did not answer\n"
)
_LAST = _ERROR.replace("in fetch", "in <module>")
_NEW = "".join(f"{word} the pool of buffers\n" for word in ("closing", "freeing", "leaving") * 15)
_RUNS = "".join(
    f"worker {n % 3} of the build farm is ready\nelapsed time 01:0{n}:03\n" for n in range(9)
)


def _each(form: str, *numbers: int) -> str:
    return "".join(form.format(n) + "\n" for n in numbers)


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("第 {} 篇文章已完成", "篇文章已完成"),
        ("Beitrag {} von 20 gelesen", "Beitrag"),
        ('wrote "/data/part {}.bin"', "wrote"),
        ("lot {} terminé en 3.2 s", "lot"),
        ("{0:3}%|█▋        | {0}/20 uur [00:{0:02}<54:22, 1.2it/s]", "/20 uur"),
    ],
)
def test_work_of_a_form_that_was_printed_before_goes_on(
    tmp_path: Path, form: str, told: str
) -> None:
    report = report_of(tmp_path, _each(form, *range(7)) + _ERROR + _each(form, *range(7, 20)))
    assert not report.failed
    assert told in report.verdict
    assert not report.diagnoses


def test_the_sign_of_an_exponent_makes_no_other_form(tmp_path: Path) -> None:
    before, behind = "step {0} of 50: lm loss: {0}.5E+00", "step {0} of 50: lm loss: {0}.5E-01"
    report = report_of(tmp_path, _each(before, *range(7)) + _ERROR + _each(behind, *range(7, 18)))
    assert not report.failed
    assert not report.diagnoses


def test_identifiers_in_brackets_are_of_one_form(tmp_path: Path) -> None:
    told = [f"job rows.open[{0x9E3779B1 * n % 2**32:08x}-a7] is over\n" for n in range(1, 40)]
    report = report_of(tmp_path, "".join([*told[:9], _ERROR, *told[9:]]))
    assert not report.failed
    assert "rows.open" in report.verdict


def test_values_that_differ_are_hardly_ever_taken_for_one(tmp_path: Path) -> None:
    form = "[{0}] epoch {{0}} loss 0.{{0}}"
    logs = (
        _each(form.format(n), 1, 2) + _ERROR + _each(form.format(n), 3, 4, 5) for n in range(60)
    )
    told = [report_of(tmp_path, log).failed for log in logs]
    assert sum(told) <= 1


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("", _NEW),
        (_NEW, _NEW),
        (_each("done in {} s", *range(50)), _each("done in {} s", *range(50, 95))),
        (_each("elapsed time 00:0{}:01", *range(9)), _each("elapsed time 00:1{}:01", *range(45))),
        (_each("81% {}/7499 [it/s]", 1, 2, 3, 4), "81% 4/7499 [it/s]\n" * 45),
        (_RUNS, _RUNS * 3),
        (_each("run {} of the sweep begins", 1), _each("run {} of the sweep begins", 2) + _NEW),
        (_each("WARNING: slow {}", *range(9)), _each("WARNING: slow {}", *range(9, 60))),
    ],
    ids=["new", "no numbers", "durations", "clocks", "redrawn", "by turns", "heads", "warnings"],
)
def test_what_is_no_work_makes_no_all_clear(tmp_path: Path, before: str, behind: str) -> None:
    report = report_of(tmp_path, before + _ERROR + behind)
    assert "the mirror did not answer" in report.diagnoses[0].title


def test_forms_that_are_new_behind_an_error_are_work_where_they_count_on(
    tmp_path: Path, prose: Prose
) -> None:
    report = report_of(tmp_path, _ERROR + _each("Schritt {} von 900", *range(900)))
    prose(report.verdict)


@pytest.mark.parametrize(
    ("end", "failed"),
    [("training finished\n" * 3, False), ("leaving the pool of tasks\n" * 3, True)],
    ids=["done", "other"],
)
def test_work_right_above_the_words_that_all_is_done_ends_a_log(
    tmp_path: Path, end: str, failed: bool
) -> None:
    steps = _each("[0] step {} of 9", 1, 2, 3), _each("[0] step {} of 9", 4, 5, 6)
    assert report_of(tmp_path, steps[0] + _ERROR + steps[1] + end).failed is failed


def test_an_end_explains_no_error_that_came_after_it_and_after_work(tmp_path: Path) -> None:
    killed = "[1]+  4711 Killed                  python train.py\n"
    steps = _each("Schritt {} von 900", *range(60))
    report = report_of(tmp_path, steps + killed + steps + _LAST)
    assert raised_first(report) == (None, "TimeoutError: the mirror did not answer")


def test_of_two_programs_that_raised_the_last_one_is_told(tmp_path: Path) -> None:
    first = _LAST.replace("TimeoutError: the mirror did not answer", "KeyError: 'shard'")
    last = (None, "TimeoutError: the mirror did not answer")
    assert raised_first(report_of(tmp_path, first + _LAST)) == last
    parent = _LAST.replace("TimeoutError: the mirror did not answer", _CALLED)
    assert raised_first(report_of(tmp_path, first + parent)) == (None, "KeyError: 'shard'")


_CALLED = "subprocess.CalledProcessError: Command '['a']' returned non-zero exit status 1."


def test_what_something_caught_is_not_told_as_the_end(tmp_path: Path, prose: Prose) -> None:
    (caught,) = report_of(tmp_path, _ERROR + "server is closed\n").diagnoses
    (ended,) = report_of(tmp_path, _LAST + "server is closed\n").diagnoses
    assert "begins in fetch()" in caught.cause
    prose(ended.cause)
    assert "begins in" not in ended.cause
