"""A host uses another network than all others.

What it means
    NCCL chooses its network on each host by itself. A host without a working InfiniBand or
    plug-in falls back to sockets: the job is slow, or its ranks cannot connect at all.
How to be sure
    "Using network" differs between hosts; on the odd one, a line "NET/IB : No device found" or
    a plug-in that could not be loaded stands before it.
What to do
    Look at the adapters and at NCCL's variables of that host.
"""

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.nccl import Nccl


@rule("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html", role=Role.CONTRIBUTING)
def host_on_other_network(nccl: Nccl) -> Findings:
    odd = nccl.odd_hosts()
    if not odd:
        return
    host, network, usual = odd[0]
    names = ", ".join(name for name, _, _ in odd)
    fell_back = " It fell back to sockets." if network.startswith("Socket") else ""
    verb = "uses" if len(odd) == 1 else "use"
    yield Finding(
        title=f"{names} {verb} the network {network}, all other hosts {usual}",
        cause=f'NCCL says "Using network {network}" on {names} and "{usual}" on the other '
        f"hosts.{fell_back}",
        confidence=Confidence.CERTAIN,
        next_steps=(
            f"on {host}: ibv_devinfo, ls /sys/class/infiniband, env | grep ^NCCL_",
            f"grep 'NET/' in the log of {host}: why the other network was not taken",
            "NCCL_NET=NAME makes a host without that network fail at the start",
        ),
        evidence=tuple(
            Evidence("NCCL INFO", f"{name}: Using network {net}") for name, net, _ in odd[:6]
        ),
    )
