"""The interface that a library is told to take is absent, down, without address, or loopback.

What it means
    NCCL says "no socket interface found" and gloo "Unable to find address for" then, or they
    take the loopback and the other nodes are refused. Names differ between machines: eth0,
    ens3, enp5s0.
How to be sure
    `ip -brief addr` on that node lists what there is.
What to do
    Name an interface that every node has and that leads to the others.
"""

from postmortem.diagnose.net.ways import faulty, interfaces_of, usable
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.net import Choice, NetCheck, Node
from postmortem.text import more, shell_word

_WHY = {
    "absent": "there is no such interface",
    "down": "it is down",
    "no_address": "it has no address",
    "loopback": "it is the loopback, which no other node reaches",
}


@rule()
def interface_not_usable(seen: NetCheck) -> Findings:
    groups: dict[tuple[str, str | None, str | None], list[tuple[Node, Choice]]] = {}
    for node, one in faulty(seen):
        if one.value is not None or one.library != "gloo":
            groups.setdefault((one.variable, one.value, one.fault), []).append((node, one))
    for found in groups.values():
        node, one = found[0]
        assert one.fault is not None
        why = _WHY.get(one.fault, one.fault)
        others = more(len(found) - 1)
        yield Finding(
            title=f"{_named(one)} on {node.label}{others}: {why}",
            cause=f"{one.library} on {node.label}{others} is told to use {_named(one)}, but {why}.",
            confidence=Confidence.CERTAIN,
            next_steps=(
                f"export {one.variable}={shell_word(usable(node))}   if it leads to the others",
                "ip -brief addr   on that node lists its interfaces",
                f"ip link set {shell_word(one.interface)} up"
                if one.fault == "down" and one.interface
                else f"unset {one.variable}   lets {one.library} choose",
            ),
            evidence=(
                Evidence(node.label, f"{one.variable}={one.value or ''}"),
                *(Evidence(other.label, interfaces_of(other)) for other, _ in found[:4]),
            ),
            about=Subject(host=node.host, path=one.interface),
        )


def _named(one: Choice) -> str:
    return f"{one.variable}={one.value}" if one.value else f"any interface for {one.library}"
