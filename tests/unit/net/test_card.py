"""What the card of a check of the network shows where nothing is wrong."""

import pytest

from postmortem.diagnose import rule
from postmortem.facts.net import Attempt, Lookup, Met, NetCheck, Node, Stage, StageName, Target
from postmortem.present.net.card import net_highlights


def test_the_tries_of_one_port() -> None:
    good = Attempt("10.0.0.1", "10.0.0.2", "eth0", Met.OK, seconds=0.0021)
    target = Target("node1", 29500, Lookup("node1", ("10.0.0.1",)), False, (good,))
    assert net_highlights(NetCheck(2, (), target=target)).rows == (("10.0.0.1", "ok, 2.1 ms"),)


def test_the_stages_of_a_job() -> None:
    stages = (
        Stage(StageName.NAMES, "ok", 0.1),
        Stage(StageName.PAIRS, "failed", 0.4, 12, 2, 1),
        Stage(StageName.GLOO, "skipped", 0.0, lacking=("node 3 (h3)",)),
    )
    shown = net_highlights(NetCheck(4, (), stages=stages))
    assert [row[0] for row in shown.rows] == ["names", "pairs", "gloo"]
    assert shown.rows[0][1] == "ok"
    assert "node 3 (h3)" in shown.rows[2][1]


@pytest.mark.parametrize("name", ["h0", "127.0.0.1"])
def test_no_resolver_is_blamed_for_an_address_that_is_this_nodes_own(name: str) -> None:
    found = Lookup(name, ("127.0.0.1",), source="/etc/hosts:2")
    node = Node(1, "h1", 7, (), Lookup("h1", ("10.0.0.2",)), found, ())
    target = Target(name, 29500, found, True, master=True)
    outcome = rule.run(rule.load("net"), {NetCheck: NetCheck(2, (node,), target=target)})
    (one,) = (d for d in outcome.diagnoses if d.id == "name_elsewhere")
    assert any("/etc/hosts" in step for step in one.next_steps) == (name == "h0")
