"""The peer did not answer.

What it means
    ETIMEDOUT: the kernel sent again and again (a connection: about two minutes; data: up to 15)
    and no answer came. The host is down, a firewall drops the packets, a cable or switch fails,
    or the route back is wrong. A refusal would have come at once.

How to be sure
    nc -vz HOST PORT from the same host; tcpdump shows SYN without an answer.

What to do
    Open the port between the hosts, or choose the interface that connects them
    (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME).
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import times
from postmortem.diagnose.strace.peers import connection_finding, host_port, never_reached
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures
from postmortem.text import shell_word


@rule(
    "https://man7.org/linux/man-pages/man2/connect.2.html",
    "https://man7.org/linux/man-pages/man7/tcp.7.html",
)
def connection_timed_out(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, tuple(g for g in failures.of("ETIMEDOUT") if never_reached(logs, g)))
    if not groups:
        other = connection_finding(
            logs,
            ("ETIMEDOUT", "timeout"),
            "{peer} did not answer: the connection timed out",
            "no answer came in time",
            (
                "nc -vz to {peer} : a firewall that drops packets looks like this",
                "is the host up, and does a server listen there? its own log says so",
            ),
        )
        if other is not None:
            yield other
        return
    group = groups[0]
    peer = group.target.words
    host, port = map(shell_word, host_port(group.target))
    yield of_calls(
        logs,
        groups,
        Confidence.LIKELY,
        title=f"{peer[:60]} did not answer: {group.first.syscall} timed out",
        cause=f"{times(logs, group)} with {peer} gave ETIMEDOUT: packets to it, or its answers, "
        "got lost",
        next_steps=(
            f"nc -vz {host} {port} : a firewall that drops packets looks like this",
            f"ping -c 3 {host} ; ip route get {host} : is the host up, and the route right?",
            "did the peer's host go down? look at its last log lines",
        ),
    )
