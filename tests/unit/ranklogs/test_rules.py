"""Rules over the logs of many ranks: every case is a log as people paste it, read for real."""

import json
import lzma
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.diagnose.rule import Rule, load
from postmortem.report.model import Report, Role

CORPUS = Path(__file__).resolve().parents[3] / "corpus"
RULES = load("ranks")
HEADINGS = ("What it means", "How to be sure", "What to do")


def _cases() -> list[tuple[Path, dict[str, Any]]]:
    read = [(path, tomllib.loads(path.read_text())) for path in sorted(CORPUS.glob("*/*/*.toml"))]
    return [(path, case) for path, case in read if case.get("facts") == "logs"]


CASES = _cases()


@pytest.mark.parametrize(("path", "case"), CASES, ids=[f"{p.parts[-2]}/{p.stem}" for p, _ in CASES])
def test_corpus(path: Path, case: dict[str, Any], tmp_path: Path) -> None:
    for name, text in case.get("logs", {"stderr.txt": case.get("log")}).items():
        (tmp_path / name).write_text(text)
    for name, packed in case.get("packed", {}).items():
        (tmp_path / name).write_bytes(lzma.decompress((path.parent / packed).read_bytes()))
    _as_if_written(tmp_path, case.get("written_after"))
    report: Report = analyse([str(tmp_path)], RankLogOptions())
    assert report.problems == ()
    found = {diagnosis.id: diagnosis for diagnosis in report.diagnoses}
    assert set(case.get("expect", ())) <= set(found), (sorted(found), report.verdict)
    assert not set(case.get("forbid", ())) & set(found), (sorted(found), report.verdict)
    for name, confidence in case.get("confidences", {}).items():
        assert found[name].confidence == confidence
    for words in case.get("verdict_has", ()):
        assert words in report.verdict, report.verdict
    for words in case.get("verdict_lacks", ()):
        assert words not in report.verdict, report.verdict
    assert report.failed is case.get("failed", True)
    for diagnosis in report.diagnoses:
        assert 0 < len(diagnosis.title) <= 100
        assert "\n" not in diagnosis.title
        assert diagnosis.evidence
        assert all(step.strip() for step in diagnosis.next_steps)


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
    assert any(rule.id in case.get("expect", ()) for _, case in CASES)
    assert any(
        rule.id in case.get("forbid", ()) and path.parts[-2] == rule.id for path, case in CASES
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_is_documented(rule: Rule) -> None:
    lines = rule.documentation.splitlines()
    positions = [lines.index(heading) for heading in HEADINGS]
    assert positions == sorted(positions)
    assert rule.references
    assert all(link.startswith("https://") for link in rule.references)
    roles = (Role.ROOT, Role.CONTRIBUTING, Role.CASCADE)
    assert rule.role in roles or rule.family in ("kernel", "hangs")
    assert rule.function.__module__.endswith(f".{rule.family}.{rule.id}")


def test_ids_are_unique_over_all_evidence() -> None:
    names = [rule.id for rule in (*load(), *load("strace"), *load("tensors"), *RULES)]
    assert len(names) == len(set(names))
