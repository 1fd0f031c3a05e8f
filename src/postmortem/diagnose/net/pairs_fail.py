"""Some pairs of nodes cannot connect: one bad node, one bad link, or two halves.

What it means
    All pairs were tried, both ways. A node that fails with more than half of the others is
    told as that; groups that work within and not between are told as such; what is left are
    single links.
How to be sure
    What failed was tried twice. The command shown meets the same by hand.
What to do
    Leave the node out, and have its cable, switch port, VLAN or firewall looked at.
"""

from postmortem.diagnose.net.pairs import BadLink, BadNode, Explained, explain
from postmortem.diagnose.net.ways import clean, example, excluded, failing, prove, tell, where
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.net import Met, NetCheck, Probe
from postmortem.text import some

_MOST = 12
_STEPS = {
    Met.REFUSED: "a firewall that rejects, or the process there has died",
    Met.DROPPED: "a firewall that drops (iptables -L -n -v, nft list ruleset), a security group, "
    "another VLAN or a broken cable: compare the node with one that works",
    Met.UNREACHABLE: "ip route, ip neigh and ethtool on both: a missing route, or no link",
    Met.FOREIGN: "two machines have one address: ip neigh show, arping -D",
}


@rule(yields_to=("wrong_interface",), yields_as=Role.CASCADE)
def pairs_fail(seen: NetCheck) -> Findings:
    probes = clean(seen)
    found = explain(failing(probes, large=False))
    bad = [probe for probe in probes if probe.met is not Met.OK]
    if found.everything:
        yield _all(seen, bad)
    if found.groups:
        yield _groups(seen, found, bad)
    for node in found.nodes[:_MOST]:
        yield _node(seen, node, bad)
    for link in found.links[:_MOST]:
        yield _link(seen, link, bad)


def _all(seen: NetCheck, bad: list[Probe]) -> Finding:
    first = bad[0]
    return Finding(
        title="the nodes reach the first one's port, and none reaches another at any other port",
        cause="all nodes reached the first one, but no connection between any two worked at the "
        "ports that their programs take (those of ip_local_port_range): a firewall lets one port "
        "pass, and gloo and NCCL need all of them.",
        confidence=Confidence.LIKELY,
        next_steps=(
            "open all TCP ports between the nodes, or those of "
            "/proc/sys/net/ipv4/ip_local_port_range",
            prove(first),
        ),
        evidence=tuple(Evidence(where(seen, one), tell(one)) for one in bad[:4]),
    )


def _groups(seen: NetCheck, found: Explained, bad: list[Probe]) -> Finding:
    names = [_members(group) for group in found.groups]
    between = [
        one
        for one in bad
        if not any(one.source in group and one.target in group for group in found.groups)
    ]
    return Finding(
        title=f"{len(names)} groups of nodes that cannot talk with each other: " + "; ".join(names),
        cause="within each group all is well, and no connection passes between them: two subnets "
        "or VLANs without a route, or a link between two switches that is down. "
        + "; ".join(names),
        confidence=Confidence.CERTAIN,
        next_steps=(
            "run the job within one group meanwhile",
            *([prove(between[0])] if between else []),
        ),
        evidence=tuple(Evidence(where(seen, one), tell(one)) for one in between[:4]),
    )


def _members(group: tuple[int, ...]) -> str:
    if group == tuple(range(group[0], group[-1] + 1)):
        return f"nodes {group[0]}-{group[-1]}"
    return f"nodes {some(group)}"


def _node(seen: NetCheck, bad: BadNode, probes: list[Probe]) -> Finding:
    label = seen.label(bad.number)
    what = {
        "both": "cannot talk with the others",
        "in": "is not reached by the others, though it reaches them",
        "out": "does not reach the others, though they reach it",
    }[bad.direction]
    to = bad.number if bad.direction != "out" else None
    shown = example(probes, to=to, of=None if to is not None else bad.number)
    steps = [prove(shown), *([_STEPS[shown.met]] if shown.met in _STEPS else [])] if shown else []
    mine = [one for one in probes if bad.number in (one.source, one.target)]
    node = seen.node(bad.number)
    return Finding(
        title=f"{label} {what}",
        cause=f"{label} {what}: {bad.failed} of its {bad.tried} tries failed, and the others work "
        "among themselves.",
        confidence=Confidence.CERTAIN,
        next_steps=(*steps, *filter(None, [excluded(seen, [bad.number])])),
        evidence=tuple(Evidence(where(seen, one), tell(one)) for one in mine[:4]),
        about=Subject(host=node.host if node else None),
    )


def _link(seen: NetCheck, link: BadLink, probes: list[Probe]) -> Finding:
    first, second = seen.label(link.first), seen.label(link.second)
    if link.both:
        title = f"{first} and {second} cannot talk with each other"
    else:
        title = f"{first} does not reach {second}, which reaches it"
    mine = [one for one in probes if {one.source, one.target} == {link.first, link.second}]
    steps = [prove(mine[0]), *([_STEPS[mine[0].met]] if mine[0].met in _STEPS else [])]
    others = "; both talk with the others" if seen.world > 2 else ""
    node = seen.node(link.second)
    return Finding(
        title=title,
        cause=f"{title}{others}: it is the way between the two, not one of them."
        if others
        else f"{title}; with only two nodes, whose fault it is cannot be told.",
        confidence=Confidence.CERTAIN,
        next_steps=tuple(steps),
        evidence=tuple(Evidence(where(seen, one), tell(one)) for one in mine[:4]),
        about=Subject(host=node.host if node else None),
    )
