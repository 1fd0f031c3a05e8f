"""What tests wrote that passed is no failure; what stands beside it is judged as ever."""

from pathlib import Path

import pytest

from builders.ranklogs import report_of
from postmortem.readers.ranklogs.passed_tests import without_passed

_RAISED = (
    "Traceback (most recent call last):\n"
    '  File "/job/tests/child.py", line 5, in <module>\n'
    '    raise RuntimeError("meant")\n'
    "RuntimeError: meant\n"
)
_PANIC = "thread 't::bad' panicked at src/row.rs:4:9:\nindex 9 out of range\n"
_DIED = "terminate called after throwing an instance of 'std::length_error'\n  what():  meant\n"
_PYTEST = "===== test session starts =====\ncollected 2 items\n\n"
_CTEST = "Test project /job/build\n    Start 1: dies\n"
_GTEST = "[==========] Running 2 tests from 1 test suite.\n[ RUN      ] Row.Dies\n"
_GO = "=== RUN   TestDies\npanic: meant\n\ngoroutine 1 [running]:\nmain.main()\n"
_WELL = {
    "pytest": f"{_PYTEST}t.py::test_dies {_RAISED}PASSED\nt.py::test_b PASSED\n\n"
    "== 2 passed in 3.1s ==\n",
    "pytest, in dots": f"{_PYTEST}t.py .{_RAISED}.\n\n== 2 passed, 1 skipped in 3.1s ==\n",
    "unittest": (
        f"test_dies (t.Row.test_dies) ... ERROR:row:meant\n{_RAISED}ok\n"
        "test_b (t.Row.test_b) ... ok\n\n-----\nRan 2 tests in 0.011s\n\nOK\n"
    ),
    "cargo": f"running 2 tests\n{_PANIC}test t::bad - should panic ... ok\ntest t::b ... ok\n\n"
    "test result: ok. 2 passed; 0 failed; 0 ignored; finished in 0.11s\n",
    "ctest": f"{_CTEST}{_DIED}1/2 Test #1: dies ....   Passed    0.31 sec\n    Start 2: b\n"
    "2/2 Test #2: b .......   Passed    0.31 sec\n\n100% tests passed, 0 tests failed out of 2\n",
    "googletest": f"{_GTEST}{_DIED}[       OK ] Row.Dies (3 ms)\n[ RUN      ] Row.B\n"
    "[       OK ] Row.B (3 ms)\n[  PASSED  ] 2 tests.\n",
    "go": f"{_GO}exit status 2\n--- PASS: TestDies (0.31s)\n=== RUN   TestB\n"
    "--- PASS: TestB (0.01s)\nPASS\nok  \texample.org/row\t0.402s\n",
}
_BADLY = {
    "pytest": (
        (
            "t.py::test_b PASSED\n\n== 2 passed in 3.1s ==",
            "t.py::test_b FAILED\n\n"
            "==== FAILURES ====\n____ test_b ____\n\n>       assert rows == 4\n"
            "E       assert 3 == 4\n\nt.py:31: AssertionError\n== short test summary info ==\n"
            "FAILED t.py::test_b - assert 3 == 4\n"
            "== 1 failed, 1 passed in 3.1s ==",
        ),
        "test_b",
    ),
    "unittest": (
        (
            "... ok\n\n-----\nRan 2 tests in 0.011s\n\nOK\n",
            "... ERROR\n\n======\nERROR: test_b (t.Row.test_b)\n------\n"
            + _RAISED.replace("RuntimeError", "KeyError").replace("meant", "b")
            + "\n-----\nRan 2 tests in 0.011s\n\nFAILED (errors=1)\n",
        ),
        "KeyError: b",
    ),
    "cargo": (
        (
            "test t::b ... ok\n\ntest result: ok.",
            "test t::b ... FAILED\n\nfailures:\n\n"
            "---- t::b stdout ----\n"
            + _PANIC.replace("t::bad", "t::b").replace("row.rs:4", "row.rs:8")
            + "\n\nfailures:\n    t::b\n\ntest result: FAILED.",
        ),
        "row.rs:8",
    ),
    "ctest": (
        (
            "2/2 Test #2: b .......   Passed    0.31 sec\n\n"
            "100% tests passed, 0 tests failed out of 2",
            "2/2 Test #2: b .......***Exception: SegFault  0.42 sec\n\n"
            "50% tests passed, 1 tests failed out of 2\n\n"
            "The following tests FAILED:\n\t  2 - b (SEGFAULT)\nErrors while running CTest",
        ),
        "2 - b (SEGFAULT)",
    ),
    "googletest": (
        (
            "[       OK ] Row.B (3 ms)\n[  PASSED  ] 2 tests.",
            "row_test.cc:8: Failure\n"
            "[  FAILED  ] Row.B (3 ms)\n[  PASSED  ] 1 test.\n[  FAILED  ] 1 test, listed below:\n"
            "[  FAILED  ] Row.B",
        ),
        "Row.B",
    ),
    "go": (
        (
            "--- PASS: TestB (0.01s)\nPASS\nok  \texample.org/row\t0.402s",
            "    row_test.go:4: got 7\n"
            "--- FAIL: TestB (0.01s)\nFAIL\nFAIL\texample.org/row\t0.402s",
        ),
        "TestB",
    ),
}


@pytest.mark.parametrize("text", _WELL.values(), ids=_WELL)
def test_a_test_that_passed_may_start_what_crashes(text: str, tmp_path: Path) -> None:
    assert not report_of(tmp_path, text).failed


@pytest.mark.parametrize("kind", _BADLY)
def test_the_test_that_failed_is_told(kind: str, tmp_path: Path) -> None:
    (was, now), told = _BADLY[kind]
    assert was in _WELL[kind]
    report = report_of(tmp_path, _WELL[kind].replace(was, now))
    assert report.failed
    assert told in report.verdict
    assert "meant" not in report.verdict


def test_what_comes_behind_the_last_word_is_no_test(tmp_path: Path) -> None:
    report = report_of(tmp_path, _WELL["pytest"] + _RAISED.replace("meant", "at exit"))
    assert report.failed
    assert "at exit" in report.verdict


@pytest.mark.parametrize(
    "text",
    [
        _PYTEST + _WELL["pytest"],  # two runs share a file: whose traceback it is nobody says
        _WELL["pytest"].replace("PASSED\n", "\n").replace("== 2 passed", "== 1 failed, 1 passed"),
        _RAISED + _WELL["unittest"],
        _RAISED,
    ],
    ids=["side by side", "no test passed", "above", "no test"],
)
def test_what_no_test_wrote_that_passed_is_left(text: str) -> None:
    assert _RAISED.encode() in without_passed(text.encode())


def test_lines_keep_their_numbers() -> None:
    data = _WELL["googletest"].encode()
    assert without_passed(data).count(b"\n") == data.count(b"\n")
