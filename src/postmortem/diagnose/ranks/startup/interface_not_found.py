"""The network interface that was asked for is not there.

What it means
    GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names an interface that this host does not have,
    or that has no address.
How to be sure
    The message names it; ip addr does not show it.
What to do
    Name one that exists on every host, or leave the variable out.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import CouldNotStart
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use")
def interface_not_found(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, CouldNotStart) or cause.fault is not StartupFault.INTERFACE:
        return
    name = clip(cause.interface or "unknown", 40)
    yield Finding(
        title=clip(f"no such network interface: {name}", 100),
        cause=f"the interface {name} that was asked for has no address on this host.",
        confidence=Confidence.LIKELY,
        next_steps=(
            "ip -brief addr  on each host shows the interfaces that there are",
            "unset GLOO_SOCKET_IFNAME NCCL_SOCKET_IFNAME, or name one that all hosts have",
        ),
        evidence=cite(blame),
    )
