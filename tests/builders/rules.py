"""What is asked of every rule, and of every case in the corpus, whatever the evidence."""

import functools
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from postmortem.diagnose.rule import Rule
from postmortem.report.model import Report

CORPUS = Path(__file__).resolve().parents[2] / "corpus"

Cases = list[tuple[Path, dict[str, Any]]]


def cases_of(facts: str) -> Cases:
    """Return the cases of one kind, each with its file."""
    return [(path, case) for path, case in _all_cases() if case.get("facts") == facts]


@functools.cache
def _all_cases() -> Cases:
    return [(path, tomllib.loads(path.read_text())) for path in sorted(CORPUS.glob("*/*/*.toml"))]


def names_of(cases: Cases) -> list[str]:
    return [f"{path.parts[-2]}/{path.stem}" for path, _ in cases]


def assert_answer(case: dict[str, Any], report: Report) -> None:
    """Assert that a report says what a case must be told, not what it must not, and readably."""
    found = {diagnosis.id: diagnosis for diagnosis in report.diagnoses}
    assert set(case.get("expect", ())) <= set(found), (sorted(found), report.verdict)
    assert not set(case.get("forbid", ())) & set(found), (sorted(found), report.verdict)
    for name, confidence in case.get("confidences", {}).items():
        assert found[name].confidence == confidence
    for name, role in case.get("roles", {}).items():
        assert found[name].role == role
    for words in case.get("verdict_has", ()):
        assert words in report.verdict, report.verdict
    for words in case.get("cause_has", ()):
        assert any(words in one.cause for one in report.diagnoses)
    for words in case.get("evidence_has", ()):
        assert any(words in row.what for one in report.diagnoses for row in one.evidence)
    for words in case.get("verdict_lacks", ()):
        assert words not in report.verdict, report.verdict
    for diagnosis in report.diagnoses:
        assert 0 < len(diagnosis.title) <= 100
        assert "\n" not in diagnosis.title
        assert diagnosis.evidence
        assert all(step.strip() for step in diagnosis.next_steps)


def assert_cases(rule: Rule, cases: Iterable[tuple[Path, dict[str, Any]]]) -> None:
    """Assert that one case expects a rule, and one in its own folder forbids it."""
    cases = list(cases)
    assert any(rule.id in case.get("expect", ()) for _, case in cases)
    assert any(
        rule.id in case.get("forbid", ()) and path.parts[-2] == rule.id for path, case in cases
    )
