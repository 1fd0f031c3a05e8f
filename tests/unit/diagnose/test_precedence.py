"""Precedence between rules is declared, and what is declared can be kept."""

from collections.abc import Iterator

import pytest

from postmortem.diagnose.rule import ANY_REASON, Finding, Rule, load, run
from postmortem.report.model import Confidence, Evidence, Role

KINDS = ("core", "hang", "ranks", "strace", "tensors")


@pytest.mark.parametrize("kind", KINDS)
def test_whom_a_rule_yields_to_is_there_and_does_not_yield_back(kind: str) -> None:
    rules = {rule.id: rule for rule in load(kind)}
    for rule in rules.values():
        if rule.yields_to == ANY_REASON:
            continue
        assert set(rule.yields_to) <= set(rules), rule.id
        seen, queue = set(), list(rule.yields_to)
        while queue:
            name = queue.pop()
            assert name != rule.id, "a circle"
            if name not in seen:
                seen.add(name)
                queue += [one for one in rules[name].yields_to if one != "*"]


def made(
    name: str,
    role: Role = Role.ROOT,
    stands: bool = False,
    explains: tuple[str, ...] = (),
    **more: object,
) -> Rule:
    def found() -> Iterator[Finding]:
        seen = (Evidence("a", "b"),)
        certain = Confidence.CERTAIN
        yield Finding(name, name, certain, (), seen, stands=stands, explains=explains)

    found.__name__ = name
    return Rule(name, "test", role, (), found, **more)  # type: ignore[arg-type]


def told(*rules: Rule) -> list[tuple[str, str]]:
    return [(d.id, d.role.value) for d in run(rules, {}).diagnoses]


def test_a_rule_yields_only_where_the_other_found_something() -> None:
    weak = made("weak", yields_to=("strong",))
    assert told(weak) == [("weak", "root")]
    assert told(weak, made("other")) == [("weak", "root"), ("other", "root")]
    assert told(weak, made("strong")) == [("strong", "root")]


def test_a_rule_may_yield_as_something_else_and_a_finding_may_stand() -> None:
    weak = made("weak", yields_to=("strong",), yields_as=Role.CONTEXT)
    assert told(weak, made("strong")) == [("strong", "root"), ("weak", "context")]
    stands = made("weak", stands=True, yields_to=("strong",), yields_as=Role.CONTEXT)
    assert told(stands, made("strong")) == [("weak", "root"), ("strong", "root")]


def test_what_only_says_how_it_ended_is_told_where_nobody_says_why() -> None:
    end = made("end", yields_to=ANY_REASON)
    assert told(end) == [("end", "root")]
    assert told(end, made("context", Role.CONTEXT)) == [("end", "root"), ("context", "context")]
    assert told(end, made("cause")) == [("cause", "root")]
    assert told(end, made("end2", yields_to=ANY_REASON)) == [("end", "root"), ("end2", "root")]


def test_a_finding_may_explain_those_of_other_rules() -> None:
    weak = made("weak", yields_as=Role.CONTRIBUTING)
    assert told(weak, made("strong", explains=("weak",))) == [
        ("strong", "root"),
        ("weak", "contributing"),
    ]
