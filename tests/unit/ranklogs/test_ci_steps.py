"""The step with which a job of a CI failed, of several jobs the first one."""

from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers.ranklogs.ci_steps import failed_step

CODE = "##[error]Process completed with exit code 1."
CANCELLED = "##[error]The operation was canceled."
BEGIN, TIDY = "##[group]Run make", "Post job cleanup."


def _log(*rows: tuple[str, int, str]) -> str:
    """Return lines of jobs, each with the second of its time."""
    return "".join(
        f"{job}\tstep\t2026-01-02T03:04:{second:02}.1234567Z {text}\n" for job, second, text in rows
    )


def _judged(log: str) -> str | None:
    step = failed_step(log.encode())
    return None if step is None else log.encode()[step.begin : step.end].decode()


def test_first_by_the_clock_is_judged() -> None:
    log = _log(
        ("b", 1, BEGIN), ("b", 9, "gate: a failed"), ("b", 9, CODE),
        ("a", 1, BEGIN), ("a", 4, "no shard 3"), ("a", 5, CODE), ("a", 6, TIDY),
        ("c", 1, BEGIN), ("c", 2, "stopped"), ("c", 2, CANCELLED),
    )  # fmt: skip
    step = failed_step(log.encode())
    assert step is not None
    assert (step.job, step.others, step.jobs) == ("a", ("b",), 3)
    assert _judged(log) == _log(("a", 1, BEGIN), ("a", 4, "no shard 3"), ("a", 5, CODE))


def test_all_were_cancelled() -> None:
    log = _log(("a", 1, BEGIN), ("a", 4, CANCELLED), ("a", 5, BEGIN), ("a", 6, "uploaded"))
    assert _judged(log) == _log(("a", 1, BEGIN), ("a", 4, CANCELLED))


def test_a_step_that_was_let_go_on_is_not_judged() -> None:
    second = [("a", 3, BEGIN), ("a", 4, "no shard 4"), ("a", 5, CODE)]
    log = _log(("a", 1, BEGIN), ("a", 2, CODE), *second, ("a", 6, TIDY))
    assert _judged(log) == _log(*second)


@pytest.mark.parametrize(
    ("behind", "ends"),
    [
        ([("a", 3, BEGIN)], True),
        ([("b", 1, BEGIN)], True),
        ([], True),
        ([("a", 3, "12 of 12 tests passed"), ("a", 3, TIDY)], False),
    ],
)
def test_an_error_ends_a_step_that_it_is_the_last_line_of(
    behind: list[tuple[str, int, str]], ends: bool
) -> None:
    log = _log(("a", 1, BEGIN), ("a", 2, "##[error]no such action"), *behind)
    assert (failed_step(log.encode()) is not None) == ends


def test_the_exit_code_of_an_actions_program_ends_its_step() -> None:
    code = "##[error]The process '/usr/bin/git' failed with exit code 128"
    log = _log(("a", 1, BEGIN), ("a", 2, code), ("a", 3, "12 of 12 files kept"), ("a", 4, TIDY))
    assert _judged(log) == _log(("a", 1, BEGIN), ("a", 2, code))


def test_lines_without_a_time() -> None:
    log = f"{BEGIN}\nno shard 3\n{CODE}\n{BEGIN}\nuploaded\n{TIDY}\n"
    assert _judged(log) == f"{BEGIN}\nno shard 3\n{CODE}\n"


@pytest.mark.parametrize("text", [f"echo '{CODE}'", "Process completed with exit code 1."])
def test_a_word_within_a_line_is_somebody_elses(text: str) -> None:
    assert failed_step(_log(("a", 1, BEGIN), ("a", 2, text)).encode()) is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
def test_other_jobs_are_named(tmp_path: Path, encoding: str, prose: Prose) -> None:
    bom = "\ufeff" if encoding == "utf-16" else ""
    log = _log(
        ("a", 1, BEGIN), ("a", 4, "ValueError: no shard 3"), ("a", 5, CODE),
        ("b", 1, BEGIN), ("b", 2, "epoch 3: 2.1 it/s"), ("b", 9, TIDY),
    )  # fmt: skip
    path = tmp_path / "ci.log"
    path.write_bytes(log.replace("\t2026", f"\t{bom}2026").encode(encoding))
    report = analyse([str(path)], RankLogOptions())
    assert "ValueError: no shard 3" in report.verdict
    prose(report.problems[0].what)


@pytest.mark.parametrize(("behind", "later"), [((), 0), (((3, TIDY),), 0), (((3, BEGIN),), 1)])
def test_that_the_job_went_on_is_told(behind: tuple[tuple[int, str], ...], later: int) -> None:
    rows = ((1, BEGIN), (2, CODE), *behind)
    step = failed_step(_log(*(("a", second, text) for second, text in rows)).encode())
    assert step is not None
    assert step.later == later
