"""A host and port cannot be reached from this node.

What it means
    Refused: the host is there, its port is not. No answer: something drops the packets.
    Unreachable: a router, or our own kernel, knows no way. Another program: the port is taken.
How to be sure
    `nc -vz HOST PORT` from the same node meets the same.
What to do
    What is named for the case: start who shall listen, open the firewall, add the route.
"""

from postmortem.diagnose.net.ways import WORDS
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.net import LARGE, Attempt, Met, NetCheck, Target
from postmortem.text import shell_word

_TITLES = {
    Met.REFUSED: "refuses: the host answers, and nobody listens there",
    Met.DROPPED: "does not answer: packets are dropped on the way, or the host is down",
    Met.UNREACHABLE: "cannot be reached",
    Met.RESET: "accepts the connection and closes it at once",
    Met.SILENT: "accepts the connection and says nothing",
    Met.FOREIGN: "is answered by another program",
    Met.NO_SOURCE: "cannot be tried from our address",
}
_STEPS = {
    Met.REFUSED: (
        "ss -ltn 'sport = :{port}'   there: is somebody listening, and not only at 127.0.0.1?",
        "the first node starts late, or died: read its log; or the name leads to another host",
    ),
    Met.DROPPED: (
        "tcpdump -ni any 'tcp port {port}'   there, while this runs: do the packets arrive?",
        "if they do not: a firewall, a security group, another VLAN, or a wrong address; open the "
        "port between the nodes in both directions",
    ),
    Met.UNREACHABLE: (
        "ip route get {address}; ip neigh show {address}   here: which interface, and does the "
        "host answer ARP?",
        "a route is missing, the host is down, or a firewall rejects it (ICMP)",
    ),
    Met.FOREIGN: (
        "ss -ltnp 'sport = :{port}'   there says who listens; take another port for the job",
    ),
}


@rule(yields_to=("name_elsewhere",), yields_as=Role.CASCADE)
def not_reached(seen: NetCheck) -> Findings:
    target = seen.target
    if target is None or not target.attempts:
        return
    if any(one.met is Met.OK or one.met in LARGE for one in target.attempts):
        return
    if not target.master and any(one.met in (Met.FOREIGN, Met.SILENT) for one in target.attempts):
        return  # somebody listens, and that was the question
    worst = target.attempts[0]
    yield Finding(
        title=f"{_place(target, worst)} {_title(worst)}",
        cause=_cause(seen, target, worst),
        confidence=Confidence.CERTAIN if worst.met is not Met.DROPPED else Confidence.LIKELY,
        next_steps=(
            f"nc -vz -w 3 {shell_word(worst.address)} {target.port}   from here meets the same",
            *(
                step.format(port=target.port, address=worst.address)
                for step in _STEPS.get(worst.met, ())
            ),
        ),
        evidence=tuple(_evidence(target, one) for one in target.attempts[:6]),
        about=Subject(host=target.host, path=target.place),
    )


def _title(one: Attempt) -> str:
    words = _TITLES.get(one.met, WORDS[one.met])
    return f"{words}: {one.detail}" if one.met is Met.UNREACHABLE and one.detail else words


def _place(target: Target, one: Attempt) -> str:
    return target.place if one.address == target.host else f"{target.place} ({one.address})"


def _cause(seen: NetCheck, target: Target, one: Attempt) -> str:
    who = seen.nodes[0].label if seen.world > 1 and seen.nodes else "this node"
    times = f", {one.tries} times" if one.tries > 1 else ""
    said = f" It said {target.greeting!r}." if target.greeting else ""
    name = ""
    if target.lookup.source is not None and one.address != target.host:
        name = f" {target.lookup.source} says that {target.host} is {one.address}: is that right?"
    detail = f" ({one.detail})" if one.detail and one.met is not Met.FOREIGN else ""
    tried = f"{who} tried {one.address} port {target.port}{times}"
    return f"{tried}: {WORDS[one.met]}{detail}.{said}{name}"


def _evidence(target: Target, one: Attempt) -> Evidence:
    source = f"from {one.source} ({one.interface or '?'})" if one.source else "no route"
    detail = f" ({one.detail})" if one.detail else ""
    return Evidence(f"{one.address}:{target.port}", f"{source}: {WORDS[one.met]}{detail}")
