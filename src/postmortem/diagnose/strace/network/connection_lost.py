"""The peer closed the connection.

What it means
    ECONNRESET and EPIPE: the process at the other end of a socket or pipe ended, or closed it,
    while this one still used it. This is what the ranks see that are left when another one
    dies.

How to be sure
    The other process's exit is earlier, by its clock.

What to do
    Look at the process that ended first.
"""

from postmortem.diagnose.rule import Confidence, Findings, Role, rule
from postmortem.diagnose.strace.calls import times
from postmortem.diagnose.strace.peers import reached_later
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures


@rule(
    "https://man7.org/linux/man-pages/man2/write.2.html",
    "https://man7.org/linux/man-pages/man2/recv.2.html",
)
def connection_lost(failures: Failures, logs: Logs) -> Findings:
    groups = worst(
        logs,
        tuple(g for g in failures.of("ECONNRESET", "EPIPE", "ECONNABORTED") if _counts(logs, g)),
    )
    if not groups:
        return
    group = groups[0]
    peer = group.target.words
    yield of_calls(
        logs,
        groups,
        Confidence.LIKELY,
        root=Role.CASCADE,
        title=f"the other end was gone: {group.first.syscall} to {peer[:50]} gave {group.errno}",
        cause=f"{times(logs, group)} with {peer} gave {group.errno}: the process at the other end "
        "ended, or closed the connection; this process is a victim, look at the other one",
        next_steps=(
            "find the process at the other end, and how it ended: its log, its strace, "
            "dmesg on its host",
            f"on the host of {peer[:60]}: was it killed? dmesg -T | grep -i 'killed process'",
        ),
    )


def _counts(logs: Logs, group: FailedCalls) -> bool:
    return group.target.kind in ("socket", "pipe") and not reached_later(logs, group)
