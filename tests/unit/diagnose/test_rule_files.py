"""What is asked of the file of every rule."""

import pytest

from postmortem.diagnose.rule import KINDS, Rule, load

RULES = [rule for kind in KINDS for rule in load(kind)]
HEADINGS = ("What it means", "How to be sure", "What to do")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_is_documented(rule: Rule) -> None:
    lines = rule.documentation.splitlines()
    assert lines[0].endswith(".")
    positions = [lines.index(heading) for heading in HEADINGS]
    assert positions == sorted(positions)
    assert all(lines[position + 1].startswith("    ") for position in positions)
    assert all(link.startswith("https://") for link in rule.references)
    assert rule.function.__module__.endswith(
        (f".{rule.family}.{rule.id}", ".failed_calls", ".ends", ".runtime_ends", ".decided")
    )


def test_ids_are_unique_over_all_evidence() -> None:
    names = [rule.id for rule in RULES]
    assert len(names) == len(set(names))
