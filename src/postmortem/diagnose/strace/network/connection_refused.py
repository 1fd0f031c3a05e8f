"""Nobody listened at the address.

What it means
    ECONNREFUSED: the peer's host answered that nothing listens at this port (or a firewall
    answered so). The server has not begun yet, has ended, or listens at another address
    (127.0.0.1 only). Programs retry; a refusal counts when no later try reached the peer.

How to be sure
    ss -ltnp on the peer's host.

What to do
    Start the server first, look why it ended, or correct address and port (MASTER_ADDR,
    MASTER_PORT).
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import times
from postmortem.diagnose.strace.peers import connection_finding, host_port, never_reached
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures
from postmortem.text import shell_word


@rule("https://man7.org/linux/man-pages/man2/connect.2.html")
def connection_refused(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, tuple(g for g in failures.of("ECONNREFUSED") if never_reached(logs, g)))
    if not groups:
        other = connection_finding(
            logs,
            ("ECONNREFUSED",),
            "connection refused: nobody listened at {peer}",
            "its host answered that nobody listens there (asked by SO_ERROR, after a "
            "connect that did not wait)",
            (
                "ss -ltnp on that host: does a server listen at {peer}?",
                "is it the right host and port? echo $MASTER_ADDR $MASTER_PORT in each rank",
            ),
        )
        if other is not None:
            yield other
        return
    group = groups[0]
    peer = group.target.words
    _, port = host_port(group.target)
    yield of_calls(
        logs,
        groups,
        Confidence.LIKELY,
        title=f"connection refused: nobody listened at {peer[:60]}",
        cause=f"{times(logs, group)} to {peer} gave ECONNREFUSED and no later one reached it: the "
        "host answered, and no process listened there at that moment",
        next_steps=(
            f"on that host: ss -ltnp {shell_word(f'sport = :{port}')} : does the server "
            "run, and listen at this address?",
            "is it the right host and port? echo $MASTER_ADDR $MASTER_PORT in each rank",
            "look why the server ended, or had not begun: the log of rank 0",
        ),
    )
