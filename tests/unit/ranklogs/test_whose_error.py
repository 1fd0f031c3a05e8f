"""Errors that are another's, or only quoted: what a test captured, what wraps, what was retried."""

from pathlib import Path

import pytest

from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Outcome, Report

TESTED = """\
=================================== FAILURES ===================================
___________________________________ test_cli ___________________________________
>       assert run("tool --bad").returncode == 2
E       assert 1 == 2
{}=========================== short test summary info ============================
FAILED test_cli.py::test_cli - assert 1 == 2
============================== 1 failed in 0.31s ===============================
"""
CAPTURED = "----------------------------- Captured stderr call -----------------------------\n"
RAISED = (
    "Traceback (most recent call last):\n"
    '  File "/opt/tool.py", line 3, in {}\n    {}()\nKeyError: 7\n'
)
LOST = "Connection closed by peer [10.0.0.2]:20368"
ABORT = "application called MPI_Abort(MPI_COMM_WORLD, 12) - process 0\n"
TYPED = (
    "me@n1:~/p$ python a.py\nstep 1\n^CTraceback (most recent call last):\n"
    '  File "a.py", line 9, in <module>\n    main()\nKeyboardInterrupt\nme@n1:~/p$ {}'
)


def first(report: Report) -> tuple[str, str]:
    """Return the rule that tells what failed first, and the line that it cites."""
    if not report.diagnoses:
        return "", ""
    told = report.diagnoses[0]
    return told.id, told.evidence[0].where.rpartition(":")[2]


@pytest.mark.parametrize(
    "captured", [RAISED.format("<module>", "main"), "terminate called recursively\n"]
)
@pytest.mark.parametrize("stamp", ["", "2026-01-02T03:04:05.1Z "])
def test_what_a_test_captured_ended_a_program_under_test(
    tmp_path: Path, captured: str, stamp: str
) -> None:
    text = TESTED.format(CAPTURED + captured)
    report = report_of(tmp_path, "".join(stamp + line for line in text.splitlines(keepends=True)))
    assert first(report) == ("last_words", str(text[: text.index("FAILED ")].count("\n") + 1))


def test_what_the_test_itself_raised_stands_in_no_captured_section(tmp_path: Path) -> None:
    text = TESTED.format(RAISED.format("test_cli", "main") + CAPTURED + "hello\n")
    assert raised_first(report_of(tmp_path, text)) == (None, "KeyError: 7")


@pytest.mark.parametrize(
    ("above", "survived"),
    [
        ("INFO [retry.py:9] Retry attempt failed:\n" + RAISED.format("__call__", "send"), True),
        ("WARNING data: skipping sample 13\n" + RAISED.format("read", "decode"), True),
        ("INFO data: reading sample 13\n" + RAISED.format("read", "decode"), False),
        ("ERROR data: giving up after retrying\n" + RAISED.format("read", "decode"), False),
        ("INFO data: retrying the download\n" + RAISED.format("<module>", "main"), False),
    ],
)
def test_who_logs_that_he_retries_has_caught_what_stands_below(
    tmp_path: Path, above: str, survived: bool
) -> None:
    assert (report_of(tmp_path, above).outcome is Outcome.FAILED) is not survived


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        ("INFO:root:done, 3 samples skipped with UnicodeDecodeError", False),
        ("INFO:root:skipped 3 samples (ValueError: bad label)", False),
        ("INFO:root:Exception: out of samples in the middle", True),
        ("INFO:root:ValueError: a label cannot be ignored by this loss", True),
    ],
)
def test_what_is_no_error_by_its_level_may_name_one_that_was_passed_over(
    tmp_path: Path, line: str, failed: bool
) -> None:
    report = report_of(tmp_path, f"INFO:root:epoch 1 loss 2\nINFO:root:epoch 2 loss 1\n{line}\n")
    assert bool(report.diagnoses) is failed


def test_what_java_names_last_is_what_all_above_came_from(tmp_path: Path) -> None:
    text = (
        'Exception in thread "main" java.lang.ExceptionInInitializerError\n\tat M.main(M.java:9)\n'
        "Caused by: java.lang.RuntimeException: plug-in\n\tat Job.load(Job.java:99)\n\t... 1 more\n"
        'Caused by: java.lang.NumberFormatException: For input string: "x8"\n\t... 6 more\n'
    )
    said = 'java.lang.NumberFormatException: For input string: "x8"'
    wrapper = "(in java.lang.ExceptionInInitializerError)"
    assert raised_first(report_of(tmp_path, text)) == (None, f"{said} {wrapper}")
    bare = text.replace('Exception in thread "main" ', "")
    assert first(report_of(tmp_path, bare)) == ("last_words", "3")


@pytest.mark.parametrize(
    ("above", "reason"),
    [
        ("iter 20 residual 1e-2\nthe grid has no cells left after the filter\n", "the grid has"),
        ("iter 20 residual 1e-2\nsolver diverged at iteration 20, giving up\n", "solver diverged"),
        ("iter 10 residual 1e-3\niter 20 residual 1e-2\n", None),
        ("INFO writing all of the output to out.nc\n", None),
    ],
)
def test_the_sentence_above_an_mpi_abort_stands_beside_it(
    tmp_path: Path, above: str, reason: str | None
) -> None:
    told = raised_first(report_of(tmp_path, above + ABORT))
    assert told is not None
    assert told[0] == 0
    assert ("; just above: " in told[1]) is (reason is not None)
    assert reason is None or f"; just above: {reason}" in told[1]


@pytest.mark.parametrize(
    ("second", "rule", "line"),
    [
        (
            "./b\n./b: error while loading shared libraries: liblumen.so.2: none\n",
            "last_words",
            "8",
        ),
        ("ls\na.py  out\n", "stopped_from_outside", "6"),
    ],
)
def test_a_command_that_was_interrupted_is_none_of_what_failed_behind_it(
    tmp_path: Path, second: str, rule: str, line: str
) -> None:
    assert first(report_of(tmp_path, TYPED.format(second))) == (rule, line)


@pytest.mark.parametrize(
    ("text", "failed"),
    [("model.py: 12\ntrain.py: 137\n", False), ("epoch 3\ntrain.py: 137\n", True)],
)
def test_a_name_and_a_number_in_a_column_is_no_code(
    tmp_path: Path, text: str, failed: bool
) -> None:
    assert bool(report_of(tmp_path, text).diagnoses) is failed


@pytest.mark.parametrize(
    ("behind", "rule"),
    [
        ("[w 0] lost connection to the manager\n[w 0] leaving\n", "only_victims"),
        (
            "[w 0] lost connection to the manager, calling it again\n[w 0] step 4\n[w 0] step 5\n",
            "",
        ),
        (
            "job.sh: line 4:  7712 Killed    python manager.py\n[w 0] lost connection to manager\n",
            "process_ended",
        ),
    ],
)
def test_who_lost_its_manager_is_a_victim_of_what_ended_that(
    tmp_path: Path, behind: str, rule: str
) -> None:
    assert first(report_of(tmp_path, f"[w 0] step 2\n[w 0] step 3\n{behind}"))[0] == rule


@pytest.mark.parametrize("who", ["", "[rank1]: "])
def test_a_check_in_a_kernel_stands_above_who_noticed_it_in_lines_of_nobody(
    tmp_path: Path, who: str
) -> None:
    check = "/aten/src/{}.cu:7: pick: block: [0,0,0], thread: [{},0,0] Assertion `{}` failed.\n"
    rows = [check.format("Loss", at, "t >= 0") for at in range(3)]
    rows += [check.format("Indexing", at, "i < n") for at in range(300)]
    rows += (RAISED.format("<module>", "main")).splitlines(keepends=True)[:-1]
    said = "RuntimeError: CUDA error: device-side assert triggered"
    text = "".join(rows[:303]) + "".join(who + row for row in [*rows[303:], said + "\n"])
    told = raised_first(report_of(tmp_path, text))
    assert told == (1 if who else None, f"{said}: `i < n` (Indexing.cu:7)")


@pytest.mark.parametrize(
    ("above", "rule"),
    [
        ("ERROR | loss is not finite at step 3, aborting\n", "last_words"),
        (
            "ERROR | metrics were not sent\n02:11:10 | INFO | step=6 loss=2.6\n",
            "stopped_from_outside",
        ),
        ("INFO | step=6 loss=2.6\n", "stopped_from_outside"),
    ],
)
def test_a_scheduler_without_a_reason_is_no_cause_below_the_programs_own_last_word(
    tmp_path: Path, above: str, rule: str
) -> None:
    end = "slurmstepd: error: *** STEP 88.0 ON gpu-a1 CANCELLED AT 2026-11-27T02:12:40 ***\n"
    steps = "".join(f"02:11:{at:02} | INFO | step={at} loss=2.{at}\n" for at in range(6))
    assert first(report_of(tmp_path, f"{steps}02:11:09 | {above}{end}"))[0] == rule


@pytest.mark.parametrize(
    ("names", "words", "candidates"),
    [
        (("a.0", "b.0", "a.1"), ("7", "'b'"), 2),
        (("a.0", "b.0", "a.1"), ("7", "7"), 0),
        (("a.0", "b.0", "driver"), ("7", "'b'"), 0),
    ],
    ids=["of one series", "alike", "of two kinds"],
)
def test_of_files_of_one_series_with_errors_of_their_own_none_is_told_for_all(
    tmp_path: Path, names: tuple[str, ...], words: tuple[str, str], candidates: int
) -> None:
    raised = [RAISED.format("f", "load").replace("7", one) for one in words]
    lost = RAISED.format("f", "step").replace("KeyError: 7", "RuntimeError: " + LOST)
    for name, text in zip(names, (raised[0], lost, raised[1]), strict=True):
        (tmp_path / name).write_text(f"it=1 loss=0.5\nit=2 loss=0.4\n{text}")
    found = analyse([str(tmp_path)], RankLogOptions()).body
    assert (found["first_failure"] is None) is (candidates > 0)
    assert len(found["candidates"]) == candidates
