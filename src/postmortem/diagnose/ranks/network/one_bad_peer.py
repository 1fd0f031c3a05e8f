"""NCCL's warnings on several hosts name one and the same address.

What it means
    Many ranks fail to reach one peer, and hardly any other: the fault is at that host, its
    adapter or its cable, not at those that complain. Where one or two do, and all else only tells
    of lost peers, it is the one place that is named.
How to be sure
    Other addresses are named by far fewer hosts. Warnings that only follow from an earlier
    error (flushed requests, aborted operations) are not counted.
What to do
    Take that host out and test its links.
"""

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import Undecided
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.nccl import Nccl
from postmortem.text import shell_word


@rule(
    "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    yields_to=("interface_of_one_host",),
)
def one_bad_peer(nccl: Nccl, blame: Attribution) -> Findings:
    if not nccl.peers:
        return
    worst = nccl.peers[0]
    voices = max(len(worst.hosts), len(worst.writers))
    few = voices < thresholds.PEERS_OF_A_BAD_LINK
    if few and (len(nccl.peers) > 1 or blame.cause != Undecided(Doubt.PEERS)):
        return
    others = [max(len(p.hosts), len(p.writers)) for p in nccl.peers[1:]]
    if any(2 * count > voices for count in others):
        return
    who = f"{len(worst.hosts)} hosts" if len(worst.hosts) > 1 else f"{len(worst.writers)} ranks"
    if voices == 1:
        who = worst.hosts[0] if worst.hosts else "one rank"
    host = nccl.host_at(worst.address)
    peer = f"{worst.address} ({host})" if host else worst.address
    title = clip(f"NCCL of {who} complains of one peer, {peer}", 100)
    found = f"only victims; {who} lost the peer at {peer}, which is where to look"
    yield Finding(
        role=Role.CONTRIBUTING if blame.first else Role.ROOT,
        title=title,
        verdict=found if few else title,
        cause="All else only tells of lost peers, and no other address is named: that host, a "
        "process of it, or the link to it."
        if few
        else f"{who} ({', '.join(worst.hosts[:8])}) report errors of their connection to "
        f"{peer}; the next address is named by {max(others, default=0)}. Those that "
        "complain are victims; the host with that address, its adapter or its link is at fault.",
        confidence=Confidence.POSSIBLE if few else Confidence.LIKELY,
        next_steps=(
            f"on {host}: ibstat, perfquery -x, ethtool -S DEVICE; run without it"
            if host
            else f"find the host (getent hosts {shell_word(worst.address)}), test its links "
            "(ibstat, perfquery -x, ethtool -S DEVICE), and run without it",
            "read the kernel log of that host around this time: dmesg -T",
            *(("read what the ranks of that host wrote: one of them may have ended first",) * few),
        ),
        evidence=(Evidence(worst.where, clip(worst.what, 200)),),
    )
