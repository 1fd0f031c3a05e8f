"""The limit of locked memory was reached.

What it means
    Memory could not be locked: mlock gave ENOMEM, EPERM or EAGAIN, or a device of InfiniBand
    refused to register memory (ibv_reg_mr, ibv_create_cq) with ENOMEM. The limit is
    RLIMIT_MEMLOCK; 64 KiB to 8 MiB by default, which is nothing for RDMA. NCCL then says "Call
    to ibv_create_cq failed" or ibv_reg_mr failed.

How to be sure
    ulimit -l inside the job (not on the login node: daemons of batch systems have their own
    limits).

What to do
    Set it to unlimited: ulimit -l unlimited, /etc/security/limits.d, LimitMEMLOCK=infinity for
    slurmd and dockerd, docker run --ulimit memlock=-1.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.arguments import flags
from postmortem.diagnose.strace.calls import named, times
from postmortem.diagnose.strace.resource_limits import limit
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures
from postmortem.text import size


@rule(
    "https://man7.org/linux/man-pages/man2/mlock.2.html",
    "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
)
def locked_memory_limit(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, tuple(g for g in failures.of("ENOMEM", "EPERM", "EAGAIN") if _locks(g)))
    if not groups:
        return
    group = groups[0]
    known = limit(logs, "RLIMIT_MEMLOCK", group.first)
    value = None if known is None else known.value
    is_limit = "" if value is None else f" (RLIMIT_MEMLOCK is {size(value)})"
    where = "" if group.target.path is None else f" on {named(group.target, 30)}"
    yield of_calls(
        logs,
        groups[:1],
        Confidence.LIKELY,
        title=f"memory cannot be locked: {group.first.syscall}{where}: raise ulimit -l",
        cause=f"{times(logs, group)}{where} gave {group.errno}: the limit of locked "
        f"memory{is_limit}",
        next_steps=(
            "ulimit -l inside the job, as the batch system starts it",
            "ulimit -l unlimited ; docker run --ulimit memlock=-1 ; LimitMEMLOCK=infinity "
            "for the daemon",
        ),
        evidence=(known.evidence,) if known is not None else (),
    )


def _locks(group: FailedCalls) -> bool:
    if group.first.syscall in ("mlock", "mlock2", "mlockall"):
        return True
    if group.first.syscall == "mmap" and "MAP_LOCKED" in flags(group.first, 3):
        return True
    rdma = (group.target.path or "").startswith("/dev/infiniband/")
    return rdma and group.errno == "ENOMEM" and group.first.syscall in ("ioctl", "write")
