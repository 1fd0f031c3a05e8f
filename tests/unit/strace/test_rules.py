"""Rules over system-call logs: every case is a log as people paste them, read for real."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.diagnose.rule import Rule, load
from postmortem.report.model import Report

CORPUS = Path(__file__).resolve().parents[3] / "corpus"
RULES = load("strace")
HEADINGS = ("What it means", "How to be sure", "What to do")


def _cases() -> list[tuple[Path, dict[str, Any]]]:
    read = [(path, tomllib.loads(path.read_text())) for path in sorted(CORPUS.glob("*/*/*.toml"))]
    return [(path, case) for path, case in read if case.get("facts") == "strace"]


CASES = _cases()


@pytest.mark.parametrize(("path", "case"), CASES, ids=[f"{p.parts[-2]}/{p.stem}" for p, _ in CASES])
def test_corpus(path: Path, case: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "strace.txt"
    log.write_text(case["log"])
    report: Report = analyse([str(log)], StraceOptions())
    # What a shortened log lacks is said; no rule fails, and every line is understood.
    assert not any(problem.where.startswith("rule ") for problem in report.problems)
    assert report.body["unparsed_lines"] == 0
    found = {diagnosis.id: diagnosis for diagnosis in report.diagnoses}
    assert set(case.get("expect", ())) <= set(found), sorted(found)
    assert not set(case.get("forbid", ())) & set(found), sorted(found)
    for name, confidence in case.get("confidences", {}).items():
        assert found[name].confidence == confidence
    for name, role in case.get("roles", {}).items():
        assert found[name].role == role
    for words in case.get("verdict_has", ()):
        assert words in report.verdict, report.verdict
    for diagnosis in report.diagnoses:
        assert 0 < len(diagnosis.title) <= 100
        assert "\n" not in diagnosis.title
        assert diagnosis.evidence
        assert all(step.strip() for step in diagnosis.next_steps)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_case_and_a_lookalike(rule: Rule) -> None:
    assert any(rule.id in case.get("expect", ()) for _, case in CASES)
    assert any(
        rule.id in case.get("forbid", ()) and path.parts[-2] == rule.id for path, case in CASES
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_is_documented(rule: Rule) -> None:
    lines = rule.documentation.splitlines()
    positions = [lines.index(heading) for heading in HEADINGS]
    assert positions == sorted(positions)
    assert all(link.startswith("https://") for link in rule.references)
    assert rule.function.__module__.endswith(f".{rule.family}.{rule.id}")


def test_ids_are_unique_over_all_evidence() -> None:
    names = [rule.id for rule in (*load(), *RULES)]
    assert len(names) == len(set(names))
