"""The network interface that was asked for is not there."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.blame import Blame, How, StartupFault
from postmortem.diagnose.ranks.startup.words import interface_of
from postmortem.diagnose.ranks.telling import cite
from postmortem.diagnose.rule import Finding, rule
from postmortem.report.model import Confidence, Role


@rule(
    role=Role.ROOT,
    references=(
        "https://pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use",
    ),
)
def interface_not_found(blame: Blame) -> Iterator[Finding]:
    """The network interface that was asked for is not there.

    What it means
        GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names an interface that this host does not have,
        or that has no address.
    How to be sure
        The message names it; ip addr does not show it.
    What to do
        Name one that exists on every host, or leave the variable out.
    """
    if blame.how not in (How.STARTUP, How.MISSING) or blame.fault is not StartupFault.INTERFACE:
        return
    yield Finding(
        title=clip(f"no such network interface: {interface_of(blame.detail)}", 100),
        cause=f"the interface {interface_of(blame.detail)} that was asked for has no "
        f"address on this host.",
        confidence=Confidence.LIKELY,
        next_steps=(
            "ip -brief addr  on each host shows the interfaces that there are",
            "unset GLOO_SOCKET_IFNAME NCCL_SOCKET_IFNAME, or name one that all hosts have",
        ),
        evidence=cite(blame),
    )
