"""A node, or one link, carries less than a tenth of what the others do.

What it means
    A port that fell back to a lower speed, a lossy cable, a congested or shaped link. Every
    collective waits for the slowest.
How to be sure
    `iperf3` between the two; `ethtool DEV` for the speed, `nstat -az TcpRetransSegs` for loss.
    Some megabytes over one connection are a sample, not a benchmark.
What to do
    Compare the node with one that works: speed, duplex, errors, queues.
"""

import statistics

from postmortem import thresholds
from postmortem.diagnose.net.pairs import explain
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.net import NetCheck, Speed
from postmortem.text import size


@rule(role=Role.CONTRIBUTING)
def slow_node(seen: NetCheck) -> Findings:
    if len(seen.speeds) < 3:
        return
    median = statistics.median(one.bytes_per_second for one in seen.speeds)
    slow = [
        one
        for one in seen.speeds
        if one.bytes_per_second
        < min(median / thresholds.SLOW_FACTOR, thresholds.SLOW_BYTES_A_SECOND)
    ]
    if not slow:
        return
    tried = {}
    for one in seen.speeds:
        tried[one.source, one.target] = tried[one.target, one.source] = one not in slow
    found = explain(tried)
    for node in found.nodes:
        mine = [one for one in slow if node.number in (one.source, one.target)]
        host = seen.node(node.number)
        yield _finding(seen, seen.label(node.number), mine, median, host.host if host else None)
    for link in found.links:
        mine = [one for one in slow if {one.source, one.target} == {link.first, link.second}]
        who = f"the link between {seen.label(link.first)} and {seen.label(link.second)}"
        yield _finding(seen, who, mine, median, None)


def _finding(
    seen: NetCheck, who: str, mine: list[Speed], median: float, host: str | None
) -> Finding:
    best = max(one.bytes_per_second for one in mine)
    return Finding(
        title=f"{who} is slow: {size(int(best))}/s at most, the others {size(int(median))}/s",
        cause=f"{who} carried {size(int(best))}/s at most in {len(mine)} tries; the median of all "
        f"{len(seen.speeds)} is {size(int(median))}/s.",
        confidence=Confidence.LIKELY,
        next_steps=(
            "iperf3 -s there and iperf3 -c HOST here: a longer measurement",
            "ethtool DEV (speed), ethtool -S DEV (errors), tc qdisc show, nstat -az TcpRetransSegs",
        ),
        evidence=tuple(
            Evidence(
                f"{seen.label(one.source)} to {seen.label(one.target)}",
                f"{size(int(one.bytes_per_second))}/s, {one.round_trip * 1e3:.1f} ms for a message "
                "and its answer",
            )
            for one in mine[:6]
        ),
        about=Subject(host=host),
    )
