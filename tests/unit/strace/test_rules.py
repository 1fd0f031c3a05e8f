"""Rules over system-call logs: every case is a log as people paste them, read for real."""

from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from builders.rules import assert_answer, assert_cases, cases_of, names_of
from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.diagnose.rule import Rule, load
from postmortem.report.model import Report

RULES = load("strace")


CASES = cases_of("strace")


@pytest.mark.parametrize(("path", "case"), CASES, ids=names_of(CASES))
def test_corpus(path: Path, case: dict[str, Any], tmp_path: Path, prose: Prose) -> None:
    log = tmp_path / "strace.txt"
    log.write_text(case["log"])
    report: Report = analyse([str(log)], StraceOptions())
    # What a shortened log lacks is said; no rule fails, and every line is understood.
    assert not any(problem.where.startswith("rule ") for problem in report.problems)
    assert report.body["unparsed_lines"] == 0
    assert_answer(case, report.diagnoses, report.verdict, prose)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_case_and_a_lookalike(rule: Rule) -> None:
    assert_cases(rule, CASES)
