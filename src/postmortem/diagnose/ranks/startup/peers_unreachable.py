"""The ranks cannot connect to each other at the addresses that they told the store.

What it means
    The store answered, so the master's address is right. Each rank told it an address of its own,
    of the interface that its name or GLOO_SOCKET_IFNAME stands for; that of a bridge of containers
    (docker0), or 127.0.1.1, leads the others nowhere, or to themselves. Or a firewall lets only the
    store's port through.
How to be sure
    The message has the address behind remote=; on which interface is it, and do the other hosts
    reach it?
What to do
    Name an interface that all hosts reach each other on.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import CouldNotStart
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use")
def peers_unreachable(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, CouldNotStart) or cause.fault is not StartupFault.PEERS:
        return
    at = f" at {cause.host}" if cause.host else ""
    yield Finding(
        title=f"the ranks cannot connect to each other{at}",
        cause="the store answered, and a rank was not reached",
        confidence=Confidence.LIKELY,
        next_steps=(
            "ip -brief addr  on each host: whose address is it? that of docker0 or 127.0.1.1 leads "
            "no other host there",
            "GLOO_SOCKET_IFNAME=INTERFACE on all hosts: one that they reach each other on; "
            "postmortem net tries all pairs",
        ),
        evidence=cite(blame),
    )
