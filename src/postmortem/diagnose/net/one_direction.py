"""Connections work from here to there, and not from there to here.

What it means
    A firewall lets one side begin and not the other. gloo and NCCL need both: each rank
    listens at a port of its own.
How to be sure
    `nc -vz` in the other direction, to a port where `nc -l` listens here.
What to do
    Open the ports between the nodes in both directions, those of /proc/sys/net/ipv4/
    ip_local_port_range too.
"""

from postmortem.diagnose.net.ways import WORDS
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.net import Met, NetCheck


@rule()
def one_direction(seen: NetCheck) -> Findings:
    target = seen.target
    if target is None or target.back in (None, Met.OK):
        return
    assert target.back is not None
    yield Finding(
        title=f"{target.host} is reached from here, but does not reach this node",
        cause=f"a connection to {target.place} works; one from there to this node does not: "
        f"{WORDS[target.back]}.",
        confidence=Confidence.CERTAIN,
        next_steps=(
            "nc -l PORT here, and nc -vz -w 3 THIS_NODE PORT there, meet the same",
            "open the firewall of this node for the other nodes, at all ports of "
            "/proc/sys/net/ipv4/ip_local_port_range: gloo and NCCL listen at any of them",
        ),
        evidence=(Evidence(f"{target.host} to this node", WORDS[target.back]),),
        about=Subject(host=target.host, path=target.place),
    )
