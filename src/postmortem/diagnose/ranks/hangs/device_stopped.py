"""The device of a rank, or who watches it, no longer does what its peers' do.

What it means
    Calls that take part of every rank are finished at a peer and still open here. So the device
    did run them, and nobody took note: it failed, or the watchdog thread is stuck (a lost
    device, a lock that it needs). Or all others' devices have begun a call, and this one has
    not.
How to be sure
    The kernel's log of that host has an Xid, or dcgmi diag fails. TORCH_NCCL_ENABLE_TIMING=1
    notes when devices begin.
What to do
    Look at the host's GPU; if it is well, take the stack of that process, with its threads.
"""

from postmortem.diagnose.jam.jam import NotBegun, NotFinished, StoppedNoting
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.jammed import jam_finding
from postmortem.diagnose.rule import Findings, rule


@rule("https://docs.nvidia.com/deploy/xid-errors/index.html")
def device_stopped(blame: Attribution) -> Findings:
    yield from jam_finding(
        blame,
        (StoppedNoting, NotBegun, NotFinished),
        (
            "dmesg -T | grep -i xid; nvidia-smi -q  on the hosts of these ranks",
            "postmortem hang PID -v  of these ranks: where is the watchdog thread?",
        ),
    )
