"""What is asked of every rule, and of every case in the corpus, whatever the evidence."""

import functools
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from builders.prose import Prose
from postmortem.diagnose.rule import Rule
from postmortem.report.model import Diagnosis

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


def assert_answer(
    case: dict[str, Any], diagnoses: Iterable[Diagnosis], verdict: str, prose: Prose
) -> None:
    """Assert that a case is told what it must be, not what it must not, and readably.

    Of a case with `prose = true` the golden file has the verdict.
    """
    found = {diagnosis.id: diagnosis for diagnosis in diagnoses}
    assert set(case.get("expect", ())) <= set(found), (sorted(found), verdict)
    assert not set(case.get("forbid", ())) & set(found), (sorted(found), verdict)
    for name, confidence in case.get("confidences", {}).items():
        assert found[name].confidence == confidence
    for name, role in case.get("roles", {}).items():
        assert found[name].role == role
    for words in case.get("verdict_has", ()):
        assert words in verdict, verdict
    for words in case.get("cause_has", ()):
        assert any(words in one.cause for one in found.values())
    for words in case.get("evidence_has", ()):
        assert any(words in row.what for one in found.values() for row in one.evidence)
    for words in case.get("verdict_lacks", ()):
        assert words not in verdict, verdict
    if case.get("prose"):
        prose(verdict)
    for diagnosis in found.values():
        assert 0 < len(diagnosis.title) <= 100
        assert "\n" not in diagnosis.title
        assert "??" not in diagnosis.title
        assert diagnosis.cause
        assert diagnosis.evidence
        assert all(row.where and row.what for row in diagnosis.evidence)
        assert diagnosis.next_steps
        assert all(step.strip() for step in diagnosis.next_steps)


def assert_cases(rule: Rule, cases: Iterable[tuple[Path, dict[str, Any]]]) -> None:
    """Assert that one case expects a rule, and one in its own folder is told without it.

    Or with another role than the rule's own.
    """
    cases = list(cases)
    own = [case for path, case in cases if path.parts[-2] == rule.id]
    assert any(rule.id in case.get("expect", ()) for _, case in cases), "no case expects it"
    forbidden = any(rule.id in case.get("forbid", ()) for case in own)
    roles = {case["roles"][rule.id] for _, case in cases if rule.id in case.get("roles", {})}
    assert forbidden or roles - {rule.role}, "no look-alike in its own folder forbids it"
