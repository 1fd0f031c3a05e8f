"""A lone job whose log falls silent, and a host that was started anew."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse

_KERNEL = (
    "2026-11-20T08:00:00.000000+00:00 n4 kernel: [ 1000.000000] eth0: link up\n"
    "2026-11-20T10:06:01.000000+00:00 n4 kernel: [    0.000000] Linux version 6.1.0 (a@b) (gcc)\n"
    "2026-11-20T10:06:09.000000+00:00 n4 kernel: [    8.200000] eth0: link up\n"
)


@pytest.mark.parametrize(
    ("first", "last", "behind", "host", "failed"),
    [
        ("10:00", "10:05", "", "n4", True),
        ("10:00", "10:05", "training finished", "n4", False),
        ("10:00", "10:20", "", "n4", False),
        ("08:00", "08:05", "", "n4", False),
        ("10:00", "10:05", "", "n5", False),
    ],
)
def test_a_log_that_falls_silent_before_its_host_starts(
    tmp_path: Path, first: str, last: str, behind: str, host: str, failed: bool
) -> None:
    hour, begin, end = first[:2], int(first[3:]), int(last[3:])
    steps = [
        f"2026-11-20 {hour}:{n:02d}:01,120 INFO step {n} loss 0.{n}\n" for n in range(begin, end)
    ]
    lines = [*steps, f"2026-11-20 {last}:02,120 INFO {behind}\n"] if behind else steps
    (tmp_path / "train.log").write_text("".join(f"[{host}:0] {line}" for line in lines))
    (tmp_path / "kern.log").write_text(_KERNEL)
    report = analyse([str(tmp_path)], RankLogOptions())
    assert (report.failed, report.diagnoses[0].id == "host_failed") == (failed, failed)
