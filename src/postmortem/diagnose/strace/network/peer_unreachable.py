"""No way leads to the peer.

What it means
    The kernel has no route to the address (ENETUNREACH), nobody on the last link answers for it
    (EHOSTUNREACH), the interface is down, or the address is none of this host (EADDRNOTAVAIL;
    also: no free local port). A wrong address, a wrong interface, a host that is down, or a
    firewall.

How to be sure
    ip route get ADDRESS ; ping.

What to do
    Correct the address or the interface; have the host looked at.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import times
from postmortem.diagnose.strace.peers import connection_finding, host_port, reached_anything
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures
from postmortem.text import shell_word

_MEANING = {
    "EHOSTUNREACH": "nobody on the network answers for that address, or a firewall refuses",
    "ENETUNREACH": "this host has no route to that network",
    "EHOSTDOWN": "that host is down",
    "ENETDOWN": "the network interface is down",
    "EADDRNOTAVAIL": "the address is none of this host's, or no local port is free",
}


@rule(
    "https://man7.org/linux/man-pages/man2/connect.2.html",
    "https://man7.org/linux/man-pages/man7/ip.7.html",
)
def peer_unreachable(failures: Failures, logs: Logs) -> Findings:
    groups = worst(
        logs,
        tuple(
            g
            for g in failures.of(
                "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENETDOWN", "EADDRNOTAVAIL"
            )
            if _counts(logs, g)
        ),
    )
    if not groups:
        other = connection_finding(
            logs,
            ("EHOSTUNREACH",),
            "{peer} cannot be reached",
            "no way leads there (reported by SO_ERROR after a non-blocking connect)",
            (
                "ip route get ADDRESS of {peer}",
                "NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME choose the interface",
            ),
        )
        if other is not None:
            yield other
        return
    group = groups[0]
    peer = group.target.words
    host = shell_word(host_port(group.target)[0])
    yield of_calls(
        logs,
        groups,
        Confidence.LIKELY,
        title=f"{peer[:60]} cannot be reached: {group.errno}",
        cause=f"{times(logs, group)} to {peer} gave {group.errno}: {_MEANING[group.errno]}",
        next_steps=(
            f"ip route get {host} ; ping -c 3 {host}",
            "is it an address of this cluster's network? NCCL_SOCKET_IFNAME and "
            "GLOO_SOCKET_IFNAME choose the interface",
            "getent ahosts $MASTER_ADDR : does the name give an address that this host can reach?",
        ),
    )


def _counts(logs: Logs, group: FailedCalls) -> bool:
    """Return whether a failure is one of a peer that matters.

    getaddrinfo() tries a socket for each address of a name, to sort them: those of IPv6 fail on
    hosts that have none, and the next one works.
    """
    last = group.matches[-1]
    pid = last.task.thread_of or last.pid
    return group.target.kind == "socket" and not reached_anything(logs, pid, last.line, worked=True)
