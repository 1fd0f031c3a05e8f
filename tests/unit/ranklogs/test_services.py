"""Services beside a job: their errors are none of its end where it ended well behind them."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse

_SERVICE = (
    'time="2026-11-20T01:{0}:00Z" level=info msg="Serving"\n'
    'time="2026-11-20T01:{0}:20Z" level=fatal msg="no such library: libdevices.so"\n'
)
_JOB = "2026-11-20 01:00:00 step 1 loss 2.5\n2026-11-20 01:50:00 step 100 loss 1.25\n"
_DONE = "2026-11-20 01:50:01 Training completed successfully\n"


@pytest.mark.parametrize(
    ("name", "minute", "job", "failed"),
    [
        ("dcgm-exporter.log", 30, _JOB + _DONE, False),
        ("node1-fluent-bit.log", 30, _JOB + _DONE, False),
        ("dcgm-exporter.log", 55, _JOB + _DONE, True),
        ("dcgm-exporter.log", 30, _JOB, True),
        ("eval.log", 30, _JOB + _DONE, True),
        ("prometheus_7b.log", 30, _JOB + _DONE, True),
        ("rank1.log", 30, _JOB + _DONE, True),
        ("tensorboard-rank1.log", 30, _JOB + _DONE, True),
    ],
)
def test_a_service_that_fails_before_the_job_ends_well(
    name: str, minute: int, job: str, failed: bool, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(_SERVICE.format(minute))
    (tmp_path / "main.log").write_text(job)
    assert analyse([str(tmp_path)], RankLogOptions()).failed is failed


RAISED = (
    'Traceback (most recent call last):\n  File "/x/{0}.py", line 3, in <module>\n    main()\n{1}\n'
)


def test_what_a_service_raised_ended_no_job_that_ended_well(tmp_path: Path) -> None:
    (tmp_path / "main.log").write_text(_JOB + _DONE)
    raised = RAISED.format("serve", "ValueError: no folder")
    (tmp_path / "tensorboard.log").write_text("2026-11-20 01:30:00 serving\n" + raised)
    report = analyse([str(tmp_path)], RankLogOptions())
    assert not report.failed
    assert "1 error was printed" in report.verdict
    (tmp_path / "main.log").write_text(_JOB)
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.failed
    assert "ValueError: no folder" in report.verdict


@pytest.mark.parametrize(("name", "told"), [("exporter", "no row"), ("evaluator", "no folder")])
def test_a_job_that_failed_later_failed_by_its_own_error(
    name: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "main.log").write_text(_JOB + RAISED.format("train", "KeyError: no row"))
    raised = RAISED.format("serve", "ValueError: no folder")
    (tmp_path / f"{name}.log").write_text("2026-11-20 01:30:00 serving\n" + raised)
    assert told in analyse([str(tmp_path)], RankLogOptions()).verdict
