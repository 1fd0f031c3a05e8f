"""A port of an InfiniBand device is not ACTIVE while others of the job are.

What it means
    DOWN: no cable, or the other side is off. INIT: the link is up and no subnet manager has
    configured it. NCCL leaves it out, or its connections time out.
How to be sure
    `ibstat`, or /sys/class/infiniband/DEV/ports/N/state.
What to do
    Mend the link, start the subnet manager, or leave the device out (NCCL_IB_HCA=^DEV).
"""

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.net import NetCheck


@rule(role=Role.CONTRIBUTING)
def fabric_port_down(seen: NetCheck) -> Findings:
    ports = [(node, one) for node in seen.nodes for one in node.fabrics]
    active = {(one.device, one.port) for _, one in ports if one.state == "ACTIVE"}
    for node, one in ports:
        if one.state == "ACTIVE":
            continue
        elsewhere = (one.device, one.port) in active
        yield Finding(
            title=f"{one.device} port {one.port} on {node.label} is {one.state}",
            cause=f"{one.device} port {one.port} ({one.link_layer}) on {node.label} is "
            f"{one.state}" + ("; on other nodes it is ACTIVE." if elsewhere else "."),
            confidence=Confidence.LIKELY if elsewhere else Confidence.POSSIBLE,
            next_steps=(
                f"ibstat {one.device}   there; INIT means that there is no subnet manager",
                f"export NCCL_IB_HCA=^{one.device}   leaves it out",
            ),
            evidence=(
                Evidence(f"/sys/class/infiniband/{one.device}/ports/{one.port}/state", one.state),
            ),
            about=Subject(host=node.host, path=one.device),
        )
