"""The port is taken.

What it means
    bind or listen gave EADDRINUSE: another process (often of an earlier run, or another job on
    the same node that uses the same default port 29500) has the port, or connections of a
    server that has ended are in TIME_WAIT and SO_REUSEADDR was not set.

How to be sure
    ss -ltnp shows the process.

What to do
    End what is left of the old run, or use another port.
"""

from postmortem.diagnose.rule import Confidence, Findings, Role, rule
from postmortem.diagnose.strace.calls import times
from postmortem.diagnose.strace.peers import host_port, reached_later
from postmortem.diagnose.strace.severity import of_calls, weigh, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures
from postmortem.text import shell_word


@rule("https://man7.org/linux/man-pages/man2/bind.2.html")
def address_in_use(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, tuple(g for g in failures.of("EADDRINUSE") if _counts(logs, g)))
    if not groups:
        return
    group = groups[0]
    peer = group.target.words
    _, port = host_port(group.target)
    weight = weigh(logs, group.matches[-1], Confidence.CERTAIN, root=Role.ROOT)
    yield of_calls(
        groups,
        weight,
        title=f"the address is in use already: {peer[:60]}",
        cause=f"{times(logs, group)} of {peer} gave EADDRINUSE: another socket listens there, or "
        "an old connection still holds the port",
        next_steps=(
            f"ss -ltnp {shell_word(f'sport = :{port}')} : who has it? (a job that ended badly "
            "may have left processes)",
            "choose another port: MASTER_PORT, torchrun --master-port, or --rdzv-endpoint HOST:0",
        ),
    )


def _counts(logs: Logs, group: FailedCalls) -> bool:
    return group.first.syscall in ("bind", "listen") and not reached_later(logs, group)
