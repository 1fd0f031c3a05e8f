"""The host where the nodes meet has no address on this node.

What it means
    The resolver here knows no address for the name of the first node (MASTER_ADDR): nothing
    was sent yet. `socket.gaierror: Name or service not known` is the same in a job's log.
How to be sure
    `getent hosts NAME` on this node asks as every program does: /etc/hosts first, then DNS.
What to do
    Give MASTER_ADDR as an address, or as a name that every node resolves.
"""

from collections.abc import Iterator

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.net import Lookup, NetCheck
from postmortem.text import shell_word


@rule()
def name_unresolved(seen: NetCheck) -> Findings:
    for where, lookup in _lookups(seen):
        if lookup.addresses or lookup.error is None:
            continue
        yield Finding(
            title=f"{lookup.name} has no address on {where}: {lookup.error}",
            cause=f"the resolver of {where} knows no address for {lookup.name} ({lookup.error}); "
            "no packet was sent.",
            confidence=Confidence.CERTAIN,
            next_steps=(
                f"getent hosts {shell_word(lookup.name)}   on {where} and on a node that works",
                "set MASTER_ADDR to the address of the first node, or to a name that all resolve",
                "getent ahosts, /etc/hosts, /etc/resolv.conf and /etc/nsswitch.conf decide",
            ),
            evidence=(Evidence(where, f"{lookup.name}: {lookup.error}"),),
            about=Subject(host=lookup.name),
        )


def _lookups(seen: NetCheck) -> Iterator[tuple[str, Lookup]]:
    if seen.target is not None:
        yield (
            seen.nodes[0].label if seen.world > 1 and seen.nodes else "this node",
            (seen.target.lookup),
        )
        return
    for node in seen.nodes:
        if node.master is not None:
            yield node.label, node.master
