"""Rules over the logs of many ranks: every case is a log as people paste it, read for real."""

import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from builders.rules import assert_answer, assert_cases, cases_of, names_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.diagnose.rule import Rule, load
from postmortem.report.model import Report, Role

RULES = load("ranks")
CASES = cases_of("logs")


@pytest.mark.parametrize(("path", "case"), CASES, ids=names_of(CASES))
def test_corpus(path: Path, case: dict[str, Any], tmp_path: Path, prose: Prose) -> None:
    for name, text in case.get("logs", {"stderr.txt": case.get("log")}).items():
        (tmp_path / name).write_text(text)
    for name, packed in case.get("packed", {}).items():
        (tmp_path / name).write_bytes(lzma.decompress((path.parent / packed).read_bytes()))
    _as_if_written(tmp_path, case.get("written_after"))
    report: Report = analyse([str(tmp_path)], RankLogOptions())
    assert len(report.problems) == case.get("problems", 0)
    assert report.failed is case.get("failed", True)
    assert_answer(case, report.diagnoses, report.verdict, prose)


def _as_if_written(folder: Path, seconds: float | None) -> None:
    """Give dumps of the flight recorder the time of writing that a case asks for."""
    if seconds is None:
        return
    dumps = {path: json.loads(path.read_text()) for path in folder.iterdir()}
    newest = max(row["time_created_ns"] for one in dumps.values() for row in one["entries"])
    for path in dumps:
        os.utime(path, (newest / 1e9 + seconds,) * 2)


def test_a_case_has_one_answer() -> None:
    """The decision is one: no two rules explain the same failure."""
    beside = {rule.id for rule in RULES if rule.role in (Role.CONTRIBUTING, Role.CONTEXT)}
    for path, case in CASES:
        assert len(set(case["expect"]) - beside) <= 1, path
        assert case["expect"], path


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_case_and_a_lookalike(rule: Rule) -> None:
    assert_cases(rule, CASES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_reference(rule: Rule) -> None:
    assert rule.references
    roles = (Role.ROOT, Role.CONTRIBUTING, Role.CASCADE)
    assert rule.role in roles or rule.family in ("kernel", "hangs")


@pytest.mark.parametrize("more", [False, True])
def test_all_ranks_raised_only_where_there_are_no_others(tmp_path: Path, more: bool) -> None:
    ends = "".join(
        f"W0102 03:04:05.6 9 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process"
        f" {pid} closing signal SIGTERM\n"
        for pid in (13, 14)
    )
    raised = "".join(
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/job/train.py", line 31, in <module>\n[rank{rank}]: KeyError: 1\n'
        for rank in (0, 1)
    )
    (tmp_path / "job.out").write_text(raised + (ends if more else ""))
    (one,) = analyse([str(tmp_path)], RankLogOptions()).diagnoses
    assert one.id == "every_rank_raised"
    assert one.title.startswith("all") is (not more)
