"""Every rule against the corpus: what it must say, and what it must not."""

from collections.abc import Iterable

import pytest

from builders.facts import Case, load_cases
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.fault_words import explain
from postmortem.diagnose.rule import Rule, load, run
from postmortem.facts.crash import Fault, Signal
from postmortem.facts.process import Process
from postmortem.facts.threads import Threads
from postmortem.present.headline.core import headline as verdict
from postmortem.report.model import Diagnosis, Role

CASES = load_cases()
RULES = load()


def diagnose(case: Case) -> tuple[Diagnosis, ...]:
    outcome = run(RULES, case.facts)
    assert outcome.problems == ()
    return outcome.diagnoses


def sentence(case: Case, diagnoses: Iterable[Diagnosis]) -> str:
    return verdict(case.get(Signal), case.get(Process), tuple(diagnoses), threads=case.get(Threads))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_corpus(case: Case) -> None:
    diagnoses = diagnose(case)
    found = {d.id: d for d in diagnoses}
    if case.kind is not None:
        assert case.get(FaultKind) is FaultKind[case.kind]
    assert set(case.expect) <= set(found), f"missing; found {sorted(found)}"
    assert not set(case.forbid) & set(found), f"said what it must not: {sorted(found)}"
    for rule_id, role in case.roles.items():
        assert found[rule_id].role == role
    for rule_id, confidence in case.confidences.items():
        assert found[rule_id].confidence == confidence
    text = sentence(case, diagnoses)
    for part in case.verdict_has:
        assert part in text, text
    for part in case.verdict_lacks:
        assert part not in text, text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_said_can_be_read(case: Case) -> None:
    for diagnosis in diagnose(case):
        assert 0 < len(diagnosis.title) <= 100
        assert "\n" not in diagnosis.title
        assert diagnosis.cause
        assert "??" not in diagnosis.title
        assert diagnosis.evidence
        assert all(e.where and e.what for e in diagnosis.evidence)
        assert diagnosis.next_steps
        assert all(step.strip() for step in diagnosis.next_steps)
    told = (case.get(Signal), case.get(Fault), case.facts[Threads], case.facts[Process])
    text = explain(case.facts[FaultKind], *told)
    assert text
    assert "\n" not in text
    assert not [part for part in case.explanation_lacks if part in text]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_case_and_a_lookalike(rule: Rule) -> None:
    positives = [case.name for case in CASES if rule.id in case.expect]
    changed = [c for c in CASES if rule.id in c.roles and c.roles[rule.id] != rule.role]
    negatives = [case.name for case in CASES if rule.id in case.forbid and case.rule == rule.id]
    assert positives, "no corpus case expects it"
    assert negatives or changed, "no look-alike under its own folder forbids it"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_reference(rule: Rule) -> None:
    assert rule.references


def test_no_root_outranks_its_evidence() -> None:
    """A cascade or a context is never the verdict while a root is known."""
    for case in CASES:
        diagnoses = diagnose(case)
        roots = [d for d in diagnoses if d.role is Role.ROOT]
        if roots:
            assert roots[0].title in sentence(case, diagnoses), case.name


def test_folders_name_rules() -> None:
    known = {(rule.family, rule.id) for rule in RULES}
    assert {(case.family, case.rule) for case in CASES} <= known
