"""Peers of sockets: what they are called, and whether a later try reached them."""

from postmortem.diagnose.strace.arguments import member
from postmortem.diagnose.strace.benign_errors import NEVER_THERE
from postmortem.diagnose.strace.calls import where, who
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscall_totals import Connection
from postmortem.facts.syscalls import FailedCalls, Match
from postmortem.patterns import Pattern
from postmortem.report.model import Evidence

_ADDRESS = Pattern(r"^\[?(?P<host>.*?)\]?:(?P<port>\d+)$")


def host_port(peer: str | None) -> tuple[str, str]:
    """Return address and port of a peer, or words for what is not known."""
    found = _ADDRESS.search(peer or "")
    return (found["host"], found["port"]) if found else ("HOST", "PORT")


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
        and member(match, 1, "sa_family").startswith("AF_INET")
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
            if one.result in results and not one.peer.startswith(NEVER_THERE)
            if reached.get((one.peer, one.file), 0) < one.line
        ]
    return found


def cite_connection(one: Connection) -> Evidence:
    """Return what became of a connection."""
    return Evidence(where(one), f"{who(one.pid)} descriptor {one.fd} to {one.peer}: {one.result}")
