"""A node takes the name of another node for an address which that one does not have.

What it means
    /etc/hosts or DNS of that node is out of date, or a cloud's name of another network. What
    it starts goes to the wrong machine: refused, dropped, or answered by somebody else.
How to be sure
    Compare `getent hosts NAME` there with `ip -brief addr` on the node of that name.
What to do
    Correct the line of /etc/hosts that is named, or the DNS; or use addresses.
"""

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.net import Lookup, Met, NetCheck
from postmortem.text import shell_word


@rule()
def name_elsewhere(seen: NetCheck) -> Findings:
    for one in seen.misnamed:
        node, other = seen.node(one.node), seen.node(one.other)
        if node is None or other is None:
            continue
        real = [address for face in other.interfaces for address in face.addresses]
        real = [address for address in real if address not in ("127.0.0.1", "::1")]
        yield _finding(
            node.label,
            one.lookup,
            f"which has {', '.join(real[:4])}",
            Evidence(other.label, f"its addresses: {', '.join(real[:8])}"),
            Confidence.CERTAIN,
            Role.ROOT if node.number != other.number and other.number == 0 else Role.CONTRIBUTING,
        )
    target = seen.target
    if target is None or not target.master or not seen.nodes or seen.nodes[0].number == 0:
        return
    if any(one.met is Met.OK for one in target.attempts) or not target.ours:
        return
    yield _finding(
        seen.nodes[0].label,
        target.lookup,
        "which is this node itself, and it is not node 0",
        Evidence(seen.nodes[0].label, "has this address itself"),
        Confidence.CERTAIN,
        Role.ROOT,
    )


def _finding(
    who: str, lookup: Lookup, real: str, proof: Evidence, confidence: Confidence, role: Role
) -> Finding:
    source = lookup.source or "the resolver (DNS)"
    found = ", ".join(lookup.addresses[:3])
    if lookup.name in lookup.addresses:  # an address names nobody else, whatever resolves names
        return Finding(
            title=f"{lookup.name} is {who} itself, and not the node that is meant",
            cause=f"what {who} sends to {lookup.name} goes to itself.",
            confidence=confidence,
            next_steps=("set MASTER_ADDR to an address of node 0: ip -brief addr there",),
            evidence=(proof,),
            about=Subject(host=lookup.name),
            role=role,
        )
    return Finding(
        title=f"{who} takes {lookup.name} to be {found}, {real}",
        cause=f"on {who}, {source} says that {lookup.name} is {found}, {real}: what it sends to "
        "that name goes to the wrong place.",
        confidence=confidence,
        next_steps=(
            f"getent hosts {shell_word(lookup.name)}   there, and ip -brief addr on the real one",
            f"correct {source}" if lookup.source else "correct the DNS, or a line in /etc/hosts",
            "or set MASTER_ADDR to the address itself",
        ),
        evidence=(Evidence(who, f"{lookup.name} is {found} ({source})"), proof),
        about=Subject(host=lookup.name, path=lookup.source),
        role=role,
    )
