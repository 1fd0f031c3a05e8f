"""Every rule against the corpus: what it must say, and what it must not."""

from collections.abc import Iterable

import pytest

from builders.facts import Case, load_cases
from builders.prose import Prose
from builders.rules import assert_answer, assert_cases, cases_of
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
def test_corpus(case: Case, prose: Prose) -> None:
    diagnoses = diagnose(case)
    if case.kind is not None:
        assert case.get(FaultKind) is FaultKind[case.kind]
    assert_answer(case.raw, diagnoses, sentence(case, diagnoses), prose)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_happened_can_be_read(case: Case) -> None:
    told = (case.get(Signal), case.get(Fault), case.facts[Threads], case.facts[Process])
    text = explain(case.facts[FaultKind], *told)
    assert text
    assert "\n" not in text
    assert not [part for part in case.explanation_lacks if part in text]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_case_and_a_lookalike(rule: Rule) -> None:
    assert_cases(rule, cases_of("core"))


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
