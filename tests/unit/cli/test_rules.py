"""`postmortem rules` over rules made here."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from postmortem.cli.main import main
from postmortem.report.model import Role
from postmortem.rules import rule as engine
from postmortem.rules.rule import Finding, Rule, rule


@rule(role=Role.ROOT, references=("https://example.org/nccl",))
def nccl_watchdog() -> Iterator[Finding]:
    """NCCL's watchdog stopped the process on purpose.

    What it means
        It is the messenger.
    """
    yield from ()


@rule(role=Role.CASCADE)
def peer_died() -> Iterator[Finding]:
    """Another rank went away first."""
    yield from ()


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    rules: tuple[Rule, ...] = (nccl_watchdog, peer_died)
    monkeypatch.setattr(engine, "load", lambda evidence="core": rules if evidence == "core" else ())


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    out = capsys.readouterr().out
    assert "nccl_watchdog  root          NCCL's watchdog stopped the process on purpose." in out
    assert "peer_died      cascade       Another rank went away first." in out
    assert "2 rules; postmortem rules ID explains one" in out


def test_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "nccl_watchdog"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("nccl_watchdog   ")
    assert "    It is the messenger." in out
    assert out.endswith("References\n  https://example.org/nccl\n")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "rules"
    assert [item["id"] for item in document["rules"]] == ["nccl_watchdog", "peer_died"]
    assert document["rules"][1]["role"] == "cascade"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nccl_watchdig", "did you mean nccl_watchdog?"),
        ("died", "did you mean peer_died?"),
        ("zzzzzz", "postmortem rules lists all"),
    ],
)
def test_an_unknown_rule(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"postmortem: there is no rule '{name}'\nhint: {hint}\n"
