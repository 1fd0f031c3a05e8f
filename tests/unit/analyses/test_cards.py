"""The first screen of every case in the corpus: how long, nothing twice, nothing of ours."""

import lzma
from pathlib import Path
from typing import Any

import pytest

from builders.cards import faults
from builders.rules import cases_of, names_of
from postmortem.analyses import ranklogs, strace
from postmortem.report.model import Report

LOGS, TRACES = cases_of("logs"), cases_of("strace")


@pytest.mark.parametrize(("path", "case"), LOGS, ids=names_of(LOGS))
def test_of_logs(path: Path, case: dict[str, Any], tmp_path: Path) -> None:
    for name, text in case.get("logs", {"stderr.txt": case.get("log")}).items():
        (tmp_path / name).write_text(text)
    for name, packed in case.get("packed", {}).items():
        (tmp_path / name).write_bytes(lzma.decompress((path.parent / packed).read_bytes()))
    assert _faults(ranklogs.analyse([str(tmp_path)], ranklogs.RankLogOptions())) == []


@pytest.mark.parametrize(("path", "case"), TRACES, ids=names_of(TRACES))
def test_of_strace(path: Path, case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "strace.txt").write_text(case["log"])
    assert _faults(strace.analyse([str(tmp_path / "strace.txt")], strace.StraceOptions())) == []


def _faults(report: Report) -> list[str]:
    return list(faults(report))
