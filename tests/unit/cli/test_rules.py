"""`postmortem rules` over rules made here."""

import json
from collections.abc import Iterator

import pytest

from builders.prose import Prose
from postmortem.cli.main import main
from postmortem.diagnose import rule as engine
from postmortem.diagnose.rule import Finding, Rule, rule
from postmortem.facts.bug import KnownBug
from postmortem.facts.signature import Signature
from postmortem.knowledge import bugs, messages
from postmortem.report.model import Role


@rule("https://example.org/nccl")
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


GLOO_CLOSED = Signature(
    id="gloo-closed",
    family="gloo",
    role="cascade",
    where=("log",),
    cause="This rank is a victim. The peer closed the connection.",
    next_steps=("go to the peer",),
    reference="pair.cc",
    pattern="Connection closed by peer",
    samples=("Connection closed by peer [::1]:1",),
)

STUCK = KnownBug(
    id="proxy-stuck",
    family="nccl",
    library="nccl",
    title="NCCL 2.99 stands still",
    cause="A lock is lost.",
    affected=(">=2.99, <2.99.2",),
    reference="https://example.org/stuck",
    fixed_in="2.99.2",
    work_around=("upgrade",),
    confidence="likely",
    machine="aarch64",
    frames=("ncclStuck",),
    variables=("NCCL_STUCK=1",),
)


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    rules: tuple[Rule, ...] = (nccl_watchdog, peer_died)
    monkeypatch.setattr(engine, "load", lambda evidence="core": rules if evidence == "core" else ())
    monkeypatch.setattr(messages, "signatures", lambda: (GLOO_CLOSED,))
    monkeypatch.setattr(bugs, "bugs", lambda: (STUCK,))


def test_list(capsys: pytest.CaptureFixture[str], prose: Prose) -> None:
    assert main(["rules"]) == 0
    out = capsys.readouterr().out
    prose(out)


def test_one_bug(capsys: pytest.CaptureFixture[str], prose: Prose) -> None:
    assert main(["rules", "proxy-stuck"]) == 0
    out = capsys.readouterr().out
    prose(out)


def test_bugs_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--json", "--find", "a lock is lost"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [bug["id"] for bug in document["bugs"]] == ["proxy-stuck"]
    assert document["rules"] == document["signatures"] == []


def test_one_signature(capsys: pytest.CaptureFixture[str], prose: Prose) -> None:
    assert main(["rules", "gloo-closed"]) == 0
    out = capsys.readouterr().out
    prose(out)
    assert "\nThe line (log)\n    Connection closed by peer [::1]:1\n" in out
    assert out.endswith("Reference\n    pair.cc\n")


@pytest.mark.parametrize(
    ("text", "found"),
    [("VICTIM", ["gloo-closed"]), ("messenger", ["nccl_watchdog"]), ("no such words", [])],
)
def test_only_those_with_a_text(
    text: str, found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rules", "--json", "--find", text]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [item["id"] for item in (*document["rules"], *document["signatures"])] == found


def test_one(capsys: pytest.CaptureFixture[str], prose: Prose) -> None:
    assert main(["rules", "nccl_watchdog"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("nccl_watchdog   ")
    prose(out)
    assert out.endswith("References\n  https://example.org/nccl\n")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "rules"
    assert [item["id"] for item in document["rules"]] == ["nccl_watchdog", "peer_died"]
    assert document["rules"][1]["role"] == "cascade"
    (signature,) = document["signatures"]
    assert signature["pattern"] == "Connection closed by peer"
    assert signature["where"] == ["log"]


@pytest.mark.parametrize("name", ["nccl_watchdig", "died", "gloo-clsed", "zzzzzz"])
def test_an_unknown_rule(name: str, capsys: pytest.CaptureFixture[str], prose: Prose) -> None:
    assert main(["rules", name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    prose(captured.err)
