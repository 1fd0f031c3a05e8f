"""HTCondor's user logs: each job is known by its last event, the last run is judged."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.facts.batch_jobs import JobState
from postmortem.readers.ranklogs.user_logs import UserLog
from postmortem.report.model import Outcome, Report

_SUBMITTED = "Job submitted from host: <10.0.0.2:9618>"
_WELL = "Job terminated.\n\t(1) Normal termination (return value 0)\n\n\tMemory (MB) : 3"
_BADLY = "Job terminated.\n\t(1) Normal termination (return value 3)"
_HELD = "Job was held.\n\tthe disk is full.\n\tCode 13 Subcode 28"
_REMOVED = "Job was aborted.\n\tvia condor_rm (by user somebody)"


def _event(code: int, job: int, text: str, hour: int = 3) -> str:
    return f"{code:03} ({job:03}.000.000) 2026-01-02 {hour:02}:04:05 {text}\n...\n"


def _jobs(report: Report) -> list[tuple[str, str, int | None, str]]:
    """Return of each job its state, its code, and why it had been held."""
    rows = report.body["jobs"]
    return [(r["id"], r["state"], r["code"], r["held"]) for r in rows]  # type: ignore[attr-defined]


def test_a_job_that_was_removed_before_the_last_run_is_counted(tmp_path: Path) -> None:
    text = _event(0, 3, _SUBMITTED) + _event(12, 3, _HELD) + _event(9, 3, _REMOVED)
    report = report_of(tmp_path, text + _event(0, 4, _SUBMITTED, 5) + _event(5, 4, _WELL, 5))
    assert report.outcome is Outcome.HEALTHY
    assert report.diagnoses == ()
    assert _jobs(report) == [("3.0", "removed", None, "the disk is full"), ("4.0", "ended", 0, "")]


def test_jobs_beside_each_other_are_one_run(tmp_path: Path) -> None:
    both = _event(0, 3, _SUBMITTED) + _event(0, 4, _SUBMITTED)
    report = report_of(tmp_path, both + _event(5, 3, _BADLY) + _event(5, 4, _WELL))
    assert report.failed
    assert [one.id for one in report.diagnoses] == ["jobs_failed"]
    assert _jobs(report) == [("3.0", "ended", 3, ""), ("4.0", "ended", 0, "")]


def test_a_job_that_is_held_is_told_however_many_end_well_after_it(tmp_path: Path) -> None:
    text = _event(0, 3, _SUBMITTED) + _event(12, 3, _HELD)
    report = report_of(tmp_path, text + _event(0, 4, _SUBMITTED) + _event(5, 4, _WELL))
    assert _jobs(report) == [("3.0", "held", None, ""), ("4.0", "ended", 0, "")]
    assert report.diagnoses[0].evidence[0].where == "job.log:3"


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([(0, _SUBMITTED)], "waiting"),
        ([(0, _SUBMITTED), (1, "Job executing on host: <10.0.0.3:9618>")], "running"),
        ([(0, _SUBMITTED), (12, _HELD), (13, "Job was released.")], "waiting"),
        ([(0, _SUBMITTED), (5, "Job termin")], "ended"),
    ],
    ids=["submitted", "running", "released", "cut"],
)
def test_a_job_whose_end_is_not_told_has_not_failed(
    tmp_path: Path, events: list[tuple[int, str]], state: str
) -> None:
    report = report_of(tmp_path, "".join(_event(code, 7, text) for code, text in events))
    assert not report.failed
    assert report.outcome is Outcome.UNKNOWN
    (job,) = report.body["jobs"]  # type: ignore[misc]
    assert (job["id"], job["state"]) == ("7.0", state)


def test_what_stands_between_events_is_read_with_its_own_line_numbers(tmp_path: Path) -> None:
    raised = (
        'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    f()\nKeyError: 7\n'
    )
    report = report_of(tmp_path, _event(0, 3, _SUBMITTED) + raised + _event(5, 3, _BADLY))
    assert raised_first(report) == (None, "KeyError: 7")
    assert report.diagnoses[0].evidence[0].where == "job.log:6"


def test_a_packed_log_says_the_same(tmp_path: Path) -> None:
    text = _event(0, 3, _SUBMITTED) + _event(12, 3, _HELD)
    packed = tmp_path / "job.log.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    report = analyse([str(packed)], RankLogOptions())
    assert report.verdict == report_of(tmp_path, text).verdict


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_events_may_be_cut_anywhere_into_pieces(size: int) -> None:
    text = _event(0, 3, _SUBMITTED) + "own line\n" + _event(5, 3, _BADLY.replace("(1)", "(0)"))
    data = text.replace("return value", "signal").encode() + b"the end"

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(data), size):
            yield data[at : at + size]

    log = UserLog("job.log")
    left = b"".join(log.without_events(pieces()))
    assert left == b"\n\nown line\n\n\n\nthe end"
    assert [(one.id, one.state, one.signal, one.line) for one in log.jobs] == [
        ("3.0", JobState.ENDED, "SIGQUIT", 4)
    ]
