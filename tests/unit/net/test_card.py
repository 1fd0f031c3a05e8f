"""What the card of a check of the network shows where nothing is wrong."""

from postmortem.facts.net import Attempt, Lookup, Met, NetCheck, Stage, StageName, Target
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
