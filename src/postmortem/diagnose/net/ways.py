"""What all rules over the network share: who is at fault by itself, and commands that prove it."""

from postmortem.facts.net import LARGE, Choice, Met, NetCheck, Node, Probe
from postmortem.text import shell_word, some

WORDS = {
    Met.REFUSED: "refused: the host answers, and nobody listens there",
    Met.DROPPED: "no answer: the packets are dropped on the way",
    Met.UNREACHABLE: "no way there",
    Met.NO_SOURCE: "our own address cannot be used",
    Met.RESET: "the connection is made and ended at once",
    Met.SILENT: "the connection is made, and nothing comes through",
    Met.FOREIGN: "somebody else answers",
    Met.LARGE_OUT: "small packets pass, full ones vanish on the way there",
    Met.LARGE_IN: "small packets pass, full ones vanish on the way back",
    Met.OK: "works",
}


def faulty(seen: NetCheck) -> list[tuple[Node, Choice]]:
    """Return the nodes and choices that can work with nobody; none where a node is alone."""
    if seen.world < 2:
        return []
    return [
        (node, one)
        for node in seen.nodes
        for one in node.choices
        if one.fault is not None and (one.library == "gloo" or not _repeats(node, one))
    ]


def _repeats(node: Node, one: Choice) -> bool:
    """Return whether a choice of NCCL says nothing that gloo's does not: one bad network."""
    return any(
        other.library != one.library
        and (other.fault, other.value, other.interface) == (one.fault, one.value, one.interface)
        and other.value is not None
        for other in node.choices
    )


def clean(seen: NetCheck) -> list[Probe]:
    """Return the probes between nodes whose own choices are sound: what is left to explain."""
    bad = {
        (node.number, one.library)
        for node in seen.nodes
        for one in node.choices
        if one.fault is not None and seen.world > 1
    }
    return [
        probe
        for probe in seen.probes
        if not any(
            (number, library) in bad
            for number in (probe.source, probe.target)
            for library in probe.way.split(", ")
        )
    ]


def failing(probes: list[Probe], *, large: bool) -> dict[tuple[int, int], bool]:
    """Return for each pair that was tried whether it works, full packets apart or alone.

    With `large` the pairs that no small packet passes are left out: they say nothing of size.
    """
    found: dict[tuple[int, int], bool] = {}
    for probe in probes:
        pair = probe.source, probe.target
        if large and probe.met is not Met.OK and probe.met not in LARGE:
            continue
        works = probe.met not in LARGE if large else probe.met is Met.OK or probe.met in LARGE
        found[pair] = found.get(pair, True) and works
    return found


def example(probes: list[Probe], *, to: int | None = None, of: int | None = None) -> Probe | None:
    """Return a probe that failed, to or of a node where that is given."""
    for probe in probes:
        if probe.met is Met.OK or (to is not None and probe.target != to):
            continue
        if of is None or probe.source == of:
            return probe
    return None


def prove(probe: Probe) -> str:
    """Return the command that shows on the source's side what a probe met."""
    return (
        f"on the source: nc -vz -w 3 -s {probe.from_address} {probe.to_address} PORT, while the "
        f"target runs nc -l PORT; ip route get {probe.to_address} from {probe.from_address}"
    )


def prove_size(address: str, largest: int | None) -> str:
    """Return the command that shows the size from which packets vanish."""
    headers = 48 if ":" in address else 28
    size = (largest or 1500) - headers
    above = f"; with -s {size + 16} nothing comes back" if largest else ""
    return (
        f"ping -M do -c 3 -s {size} {address}   passes{above}"
        if largest
        else (f"ping -M do -c 3 -s {size} {address}   and smaller, until it passes")
    )


def tell(probe: Probe) -> str:
    """Return what a probe met, as a row of evidence."""
    words = WORDS[probe.met]
    detail = f" ({probe.detail})" if probe.detail else ""
    again = ", twice" if probe.first_try is not None else ""
    return f"{probe.from_address} to {probe.to_address}, {probe.way}: {words}{detail}{again}"


def where(seen: NetCheck, probe: Probe) -> str:
    """Return the two ends of a probe."""
    return f"{seen.label(probe.source)} to {seen.label(probe.target)}"


def usable(node: Node) -> str:
    """Return the interface that is worth a try in its place, or a word for it."""
    for one in node.interfaces:
        if one.up and not one.loopback and one.addresses and not one.name.startswith("docker"):
            return one.name
    return "NAME"


def interfaces_of(node: Node) -> str:
    """Return what interfaces a node has, for a row of evidence."""
    rows = [
        f"{one.name} ({'up' if one.up else 'down'}, "
        f"{', '.join(one.addresses[:2]) or 'no address'}, MTU {one.mtu})"
        for one in node.interfaces
    ]
    return some(rows, 6)


def excluded(seen: NetCheck, numbers: list[int]) -> str:
    """Return the words for a scheduler that leaves nodes out."""
    hosts = [node.host for node in seen.nodes if node.number in numbers]
    return f"leave it out meanwhile: --exclude={','.join(map(shell_word, hosts))}" if hosts else ""
