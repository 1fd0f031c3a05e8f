"""NCCL took an interface that leads to no other host.

What it means
    Each host tells the others one address of its own. That of docker0, of a bridge of virtual
    machines or of lo leads whoever tries it to nobody, or to itself: it is refused, or times out.
How to be sure
    NCCL_DEBUG=INFO: "Bootstrap : Using NAME:ADDRESS" of each host, and the address that a warning
    of another host names; two hosts with one address cannot both be found there.
What to do
    Name the network that all hosts share: NCCL_SOCKET_IFNAME, and GLOO_SOCKET_IFNAME beside it.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import CouldNotStart, NeverJoined, Undecided
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.nccl import Nccl


@rule("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname")
def interface_of_one_host(nccl: Nccl, blame: Attribution) -> Findings:
    if not isinstance(blame.cause, Undecided | NeverJoined | CouldNotStart):
        return
    if len({one.host for one in nccl.addresses}) < 2:
        return
    lost = {peer.address: peer for peer in nccl.peers}
    odd = [one for one in nccl.addresses if one.leads_nowhere]
    first = next((one for one in odd if one.address in lost), odd[0] if odd else None)
    if first is None:
        return
    alike = sorted({one.host for one in odd if one.address == first.address})
    tried = lost.get(first.address)
    usual = next((one.interface for one in nccl.addresses if not one.leads_nowhere), None)
    names = ", ".join(alike[:6])
    more = [one for one in nccl.addresses if one.address != first.address and one.host in alike]
    title = f"NCCL of {names} took {first.interface} ({first.address}), where no other host can "
    title += "reach it"
    yield Finding(
        title=title,
        verdict=title,
        cause="That address is of the host alone: who tries it from elsewhere finds nobody there, "
        "or itself.",
        confidence=Confidence.LIKELY if tried or len(alike) > 1 else Confidence.POSSIBLE,
        next_steps=(
            "ip -brief addr  on each host: which network do all of them share?",
            f"NCCL_SOCKET_IFNAME={usual or 'NAME'} and GLOO_SOCKET_IFNAME={usual or 'NAME'}  on "
            "all of them",
        ),
        evidence=(
            *([Evidence(tried.where, tried.what[:200])] if tried is not None else []),
            *(
                Evidence("NCCL INFO", f"{one.host}: Using {one.interface}:{one.address}")
                for one in [*odd, *more][:6]
            ),
        ),
    )
