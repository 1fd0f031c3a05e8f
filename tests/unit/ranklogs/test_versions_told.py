"""Versions in the heads of logs reach the rules, and say nothing where nothing failed."""

import gzip
from pathlib import Path

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers.ranklogs.read import read_rank_logs
from postmortem.readers.ranklogs.sources import find_rank_logs

WARNED = """numpy==2.1.0
A module that was compiled using NumPy 1.x cannot be run in
NumPy 2.1.0 as it may crash.
[rank0]: step 1
[rank0]: training finished
"""
RAISED = """numpy=={version}
[rank0]: Traceback (most recent call last):
[rank0]:   File "/app/train.py", line 4, in <module>
[rank0]:     x.numpy()
[rank0]: RuntimeError: Numpy is not available
torch=={version}
"""


def test_a_job_that_went_on_has_no_bug(tmp_path: Path) -> None:
    log = tmp_path / "stderr.txt"
    log.write_text(WARNED)
    report = analyse([str(log)], RankLogOptions())
    assert not report.failed
    assert "known_bug_in_logs" not in [one.id for one in report.diagnoses]


def test_versions_of_plain_and_packed_logs(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("torch: 2.2.0\n[rank0]: step\n")
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(b"torch: 2.2.1\n[rank1]: step\n"))
    read = read_rank_logs(find_rank_logs([str(tmp_path)]))
    told = {(one.version, one.where) for one in read.versions.of("torch")}
    assert told == {("2.2.0", "a.log:1"), ("2.2.1", "b.log.gz:1")}


def test_one_version_off(tmp_path: Path) -> None:
    for version, expected in (("2.2.2+cu121", True), ("2.3.0+cu121", False)):
        log = tmp_path / f"{version}.log"
        log.write_text(RAISED.format(version=version))
        found = {one.id: one for one in analyse([str(log)], RankLogOptions()).diagnoses}
        assert ("known_bug_in_logs" in found) is expected
