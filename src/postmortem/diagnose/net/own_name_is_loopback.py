"""gloo will listen at the loopback, where no other node reaches it.

What it means
    Without GLOO_SOCKET_IFNAME, PyTorch's gloo takes the address of the host's own name. Here
    that is a loopback address (Debian writes 127.0.1.1 into /etc/hosts), or there is none.
    The other nodes are told to connect to themselves: "Connection refused".
How to be sure
    `getent hosts $(hostname)` on that node.
What to do
    Set GLOO_SOCKET_IFNAME to the interface between the nodes, or give the name its address.
"""

from postmortem.diagnose.net.ways import faulty, interfaces_of, usable
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.net import Met, NetCheck
from postmortem.text import more, shell_word


@rule("https://docs.pytorch.org/docs/stable/distributed.html")
def own_name_is_loopback(seen: NetCheck) -> Findings:
    found = [
        (node, one)
        for node, one in faulty(seen)
        if one.library == "gloo" and one.value is None and not _works(seen, node.number)
    ]
    if not found:
        return
    node, one = found[0]
    failed = any(_tried(seen, other.number) for other, _ in found)
    others = more(len(found) - 1)
    own = node.own
    is_what = ", ".join(own.addresses[:3]) if own.addresses else f"nothing ({own.error})"
    yield Finding(
        title=f"gloo on {node.label}{others} listens at the loopback: its own name is {is_what}",
        cause=f"{own.name} is {is_what} on {node.label}{others} "
        f"({own.source or 'by its resolver'}), and GLOO_SOCKET_IFNAME is not set: gloo takes "
        f"{one.address}, where no other node reaches it.",
        confidence=Confidence.CERTAIN if failed else Confidence.LIKELY,
        next_steps=(
            f"export GLOO_SOCKET_IFNAME={shell_word(usable(node))}   before the job",
            f"or give {own.name} its address in {own.source or '/etc/hosts'}",
            "getent hosts $(hostname)   there shows it",
        ),
        evidence=tuple(
            row
            for other, _ in found[:4]
            for row in (
                Evidence(
                    other.label,
                    f"{other.own.name} is {', '.join(other.own.addresses[:3]) or 'nothing'} "
                    f"({other.own.source or 'resolver'})",
                ),
                Evidence(other.label, interfaces_of(other)),
            )
        ),
        about=Subject(host=node.host, path=own.source),
    )


def _tried(seen: NetCheck, number: int) -> list[Met]:
    return [
        probe.met
        for probe in seen.probes
        if number in (probe.source, probe.target) and "gloo" in probe.way
    ]


def _works(seen: NetCheck, number: int) -> bool:
    """Return whether it was tried and works all the same: all "nodes" are one host."""
    tried = _tried(seen, number)
    return bool(tried) and all(met is Met.OK for met in tried)
