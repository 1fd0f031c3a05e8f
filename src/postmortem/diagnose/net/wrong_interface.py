"""The address that a library takes is not reached, and another one of the same node is.

What it means
    The node has several networks, and the library takes one that does not lead to the others:
    a management network, a bridge of containers, InfiniBand's IP without a subnet manager.
How to be sure
    The other address was tried at the same time, and worked.
What to do
    Name the interface that works, on all nodes.
"""

from postmortem.diagnose.net.ways import clean, prove, tell, where
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.net import Choice, NetCheck, Probe
from postmortem.text import shell_word


@rule()
def wrong_interface(seen: NetCheck) -> Findings:
    found: dict[tuple[int, str], list[Probe]] = {}
    for probe in clean(seen):
        if probe.alternative is not None:
            found.setdefault((probe.target, probe.way), []).append(probe)
    for (number, way), probes in found.items():
        node, probe = seen.node(number), probes[0]
        library = way.split(", ")[0]
        choice = (
            next((one for one in node.choices if one.library == library), None) if node else None
        )
        name, _, address = (probe.alternative or "").partition(" ")
        taken = choice.interface if choice is not None else probe.to_address
        yield Finding(
            title=f"{way} on {seen.label(number)} takes {taken}, which is not reached; {name} is",
            cause=f"{way} on {seen.label(number)} takes {taken} "
            f"({probe.to_address}){_why(choice)}; "
            f"from {seen.label(probe.source)} it is not reached, while {name} ({address}) is.",
            confidence=Confidence.LIKELY,
            next_steps=(
                *(
                    f"export {'GLOO' if one == 'gloo' else one}_SOCKET_IFNAME={shell_word(name)}"
                    for one in way.split(", ")
                ),
                prove(probe),
            ),
            evidence=tuple(
                Evidence(where(seen, one), f"{tell(one)}; {one.alternative} works")
                for one in probes[:4]
            ),
            about=Subject(host=node.host if node else None, path=taken),
        )


def _why(choice: Choice | None) -> str:
    if choice is None:
        return ""
    return f" by {choice.variable}={choice.value}" if choice.value else " by itself"
