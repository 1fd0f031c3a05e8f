"""Connections are made and small messages pass, but full packets vanish.

What it means
    Somewhere on the way the MTU is smaller than at the ends, and nobody says so (ICMP is
    filtered, or a switch drops). A job meets, exchanges addresses, and hangs with the first
    tensor.
How to be sure
    `ping -M do -s SIZE`: the size named passes, a larger one does not. *Certain* where
    the size at which it begins was found; else a lossy way may look the same.
What to do
    Give both ends the MTU that passes, or mend the device between them.
"""

from postmortem.diagnose.net.pairs import explain
from postmortem.diagnose.net.ways import clean, failing, prove_size, tell, where
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.net import LARGE, NetCheck, Probe

_STEPS = (
    "ip link set DEV mtu N   on both ends, as large as the smallest on the way; or let the "
    "switches and tunnels between them pass jumbo frames",
    "a firewall must let ICMP 'fragmentation needed' (type 3 code 4) and ICMPv6 type 2 pass",
)


@rule()
def large_packets_vanish(seen: NetCheck) -> Findings:
    target = seen.target
    if target is not None:
        for one in target.attempts:
            if one.met in LARGE:
                yield _finding(
                    f"full packets between here and {target.place} vanish",
                    one.address,
                    target.largest,
                    (Evidence(f"{one.source} to {one.address}", one.detail),),
                    target.host,
                )
                return
    probes = clean(seen)
    bad = [probe for probe in probes if probe.met in LARGE]
    if not bad:
        return
    largest = max((one.largest for one in bad if one.largest is not None), default=None)
    found = explain(failing(probes, large=True))
    evidence = tuple(Evidence(where(seen, one), tell(one)) for one in bad[:4])
    for node in found.nodes[:8]:
        title = f"full packets to or from {seen.label(node.number)} vanish"
        host = seen.node(node.number)
        mine = _of(bad, node.number)
        yield _finding(title, mine.to_address, largest, evidence, host.host if host else None)
    for link in found.links[:8]:
        title = (
            f"full packets between {seen.label(link.first)} and {seen.label(link.second)} vanish"
        )
        mine = next(one for one in bad if {one.source, one.target} == {link.first, link.second})
        yield _finding(title, mine.to_address, mine.largest or largest, evidence, None)
    if found.everything or found.groups:
        who = "between all nodes" if found.everything else "between groups of nodes"
        yield _finding(f"full packets {who} vanish", bad[0].to_address, largest, evidence, None)


def _of(bad: list[Probe], number: int) -> Probe:
    return next(one for one in bad if number in (one.source, one.target))


def _finding(
    title: str, address: str, largest: int | None, evidence: tuple[Evidence, ...], host: str | None
) -> Finding:
    size = f": {largest:,} bytes pass, larger ones do not" if largest is not None else ""
    return Finding(
        title=f"{title}{size}",
        cause=f"{title}{size}; small ones pass. A device on the way has a smaller MTU than the "
        "ends, and does not say so.",
        confidence=Confidence.CERTAIN if largest is not None else Confidence.LIKELY,
        next_steps=(prove_size(address, largest), *_STEPS),
        evidence=evidence,
        about=Subject(host=host),
    )
