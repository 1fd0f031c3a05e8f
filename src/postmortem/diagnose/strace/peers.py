"""Peers of sockets: what they are called, and whether a later try reached them."""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Finding
from postmortem.diagnose.strace.arguments import argument
from postmortem.diagnose.strace.severity import weigh_fate
from postmortem.diagnose.strace.task_text import who
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscall_totals import Connection
from postmortem.facts.syscalls import FailedCalls, Match, Target
from postmortem.patterns import Pattern
from postmortem.report.model import Confidence, Evidence
from postmortem.text import counted

_ADDRESS = Pattern(r"^\[?(?P<host>.*?)\]?:(?P<port>\d+)$")


def host_port(target: Target) -> tuple[str, str]:
    """Return address and port of a peer, or words for what is not known."""
    found = _ADDRESS.search(target.path or "")
    return (found["host"], found["port"]) if found else ("HOST", "PORT")


def never_reached(logs: Logs, group: FailedCalls) -> bool:
    """Return whether a socket's peer was not reached by a later call either."""
    return group.target.kind == "socket" and not reached_later(logs, group)


def reached_later(logs: Logs, group: FailedCalls) -> bool:
    """Return whether the same call on the same peer worked after the last failure."""
    last = group.matches[-1]
    return any(
        match.target.path == group.target.path
        and match.file == last.file
        and match.line > last.line
        and _worked(match)
        for match in logs.asked("connect")
    )


def _worked(match: Match) -> bool:
    return match.returned == 0


def name_servers(logs: Logs) -> tuple[Match, ...]:
    """Return the connects to name servers."""
    return tuple(m for m in logs.asked("connect") if (m.target.path or "").endswith(":53"))


def reached_anything(logs: Logs, pid: int, after: int, *, worked: bool = False) -> bool:
    """Return whether a process tried a peer that is no name server after it asked one.

    getaddrinfo() itself connects UDP sockets to each answer, to sort them: that too shows that
    there was an answer.
    """
    return any(
        (match.task.thread_of or match.pid) == pid
        and match.line > after
        and "sa_family=AF_INET" in argument(match, 1)
        and not (match.target.path or "").endswith(":53")
        and (not worked or _worked(match))
        for match in logs.asked("connect")
    )


def failed_connections(logs: Logs, *results: str) -> list[Connection]:
    """Return connections that ended so and that no later one to the same peer made good.

    Those of sockets that do not block are among them: their connect() gives EINPROGRESS, and what
    became of it is asked later (SO_ERROR).
    """
    found = []
    for log in logs.logs:
        reached = {(c.peer, c.file): c.line for c in log.connections if c.result == "connected"}
        found += [
            one
            for one in log.connections
            if one.result in results and reached.get((one.peer, one.file), 0) < one.line
        ]
    return found


def connection_finding(
    logs: Logs, results: tuple[str, ...], title: str, meaning: str, next_steps: tuple[str, ...]
) -> Finding | None:
    """Return a finding on connections that failed without an errno of a call, if there are any.

    `{peer}` in the words stands for the peer of the last one.
    """
    failed = failed_connections(logs, *results)
    if not failed:
        return None
    last = failed[-1]
    weight = weigh_fate(logs.fate_of(last.pid, last.line), Confidence.LIKELY)
    same = [one for one in failed if one.peer == last.peer]
    count = counted(len(same), "connection")
    return Finding(
        title=title.format(peer=clip(last.peer, 60)),
        cause=f"{count} to {last.peer}: {meaning}{weight.words}",
        confidence=weight.confidence,
        next_steps=tuple(step.replace("{peer}", last.peer) for step in next_steps),
        evidence=tuple(
            Evidence(
                f"{one.file.rpartition('/')[2]}:{one.line}",
                f"{who(one.pid)} descriptor {one.fd} to {one.peer}: {one.result}",
            )
            for one in same[:3]
        ),
        role=weight.role,
    )
