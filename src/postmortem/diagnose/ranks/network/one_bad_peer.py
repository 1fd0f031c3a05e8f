"""NCCL's warnings on several hosts name one and the same address.

What it means
    Many ranks fail to reach one peer, and hardly any other: the fault is at that host, its
    adapter or its cable, not at those that complain.
How to be sure
    Other addresses are named by far fewer hosts. Warnings that only follow from an earlier
    error (flushed requests, aborted operations) are not counted.
What to do
    Take that host out and test its links.
"""

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.nccl import Nccl
from postmortem.text import shell_word


@rule("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html")
def one_bad_peer(nccl: Nccl, blame: Attribution) -> Findings:
    if not nccl.peers:
        return
    worst = nccl.peers[0]
    voices = max(len(worst.hosts), len(worst.writers))
    if voices < thresholds.PEERS_OF_A_BAD_LINK:
        return
    others = [max(len(p.hosts), len(p.writers)) for p in nccl.peers[1:]]
    if any(2 * count > voices for count in others):
        return
    who = f"{len(worst.hosts)} hosts" if len(worst.hosts) > 1 else f"{len(worst.writers)} ranks"
    host = nccl.host_at(worst.address)
    peer = f"{worst.address} ({host})" if host else worst.address
    title = clip(f"NCCL of {who} complains of one peer, {peer}", 100)
    yield Finding(
        role=Role.CONTRIBUTING if blame.first else Role.ROOT,
        title=title,
        verdict=title,
        cause=f"{who} ({', '.join(worst.hosts[:8])}) report errors of their connection to "
        f"{peer}; the next address is named by {max(others, default=0)}. Those that "
        "complain are victims; the host with that address, its adapter or its link is at fault.",
        confidence=Confidence.LIKELY,
        next_steps=(
            f"on {host}: ibstat, perfquery -x, ethtool -S DEVICE; run without it"
            if host
            else f"find the host (getent hosts {shell_word(worst.address)}), test its links "
            "(ibstat, perfquery -x, ethtool -S DEVICE), and run without it",
            "read the kernel log of that host around this time: dmesg -T",
        ),
        evidence=(Evidence(worst.where, clip(worst.what, 200)),),
    )
