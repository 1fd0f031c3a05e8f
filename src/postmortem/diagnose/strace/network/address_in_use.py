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

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import times
from postmortem.diagnose.strace.peers import host_port, reached_later
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.diagnose.strace.stderr_errors import spoken_errors
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures, Match
from postmortem.text import shell_word


@rule("https://man7.org/linux/man-pages/man2/bind.2.html")
def address_in_use(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, tuple(g for g in failures.of("EADDRINUSE") if _counts(logs, g)))
    if not groups:
        return
    group = groups[0]
    peer = group.target.words
    _, port = host_port(group.target.path)
    yield of_calls(
        logs,
        groups,
        Confidence.CERTAIN if _ended_it(logs, group.matches[-1]) else Confidence.POSSIBLE,
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
    bound = group.first.syscall in ("bind", "listen") and not reached_later(logs, group)
    return bound and not _has_it_itself(logs, group)


def _has_it_itself(logs: Logs, group: FailedCalls) -> bool:
    """Return whether the process has the port: of [::] it is taken for 0.0.0.0 too (ipv6(7))."""
    last = group.matches[-1]
    host, port = host_port(group.target.path)
    return any(
        (":" in host_port(match.target.path)[0]) is not (":" in host)
        and match.pid == last.pid
        and match.errno is None
        and match.line < last.line
        and host_port(match.target.path)[1] == port
        for match in logs.asked("bind")
    )


def _ended_it(logs: Logs, match: Match) -> bool:
    """Return whether the process said nothing else before its end: servers may do without."""
    task = logs.task(match.task.thread_of or match.pid, match.line)
    if task is None or task.ending is None:
        return True  # the fate is weighed
    return not task.last_words or any(name == match.errno for name, _ in spoken_errors(task))
