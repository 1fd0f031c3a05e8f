"""What processes asked name servers, and what these answered (RFC 1035)."""

from postmortem.diagnose.strace.arguments import member
from postmortem.diagnose.strace.calls import cite, where, who
from postmortem.diagnose.strace.peers import name_servers
from postmortem.facts.syscall_logs import Logs
from postmortem.patterns import Pattern
from postmortem.records import record
from postmortem.report.model import Evidence

_ESCAPE = Pattern(r"\\(?:([0-7]{1,3})|x([0-9a-f]{2})|(.))")
_NAMED = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7, "b": 8}
_CODES = {1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
_MEANINGS = {
    "SERVFAIL": "the server could not find out (SERVFAIL): the servers behind it do not answer",
    "NXDOMAIN": "the server says that there is no such name (NXDOMAIN)",
    "REFUSED": "the server refuses to answer this host (REFUSED)",
    "NODATA": "the server knows the name, but no address of it (NODATA)",
    "": "no answer came",
}
"""What an answer means, in words."""


@record
class AskedServer:
    """A process turned to a name server."""

    pid: int
    """Of the process, not of a thread of it."""
    server: str
    line: int
    evidence: Evidence


def asked_servers(logs: Logs) -> list[AskedServer]:
    """Return who turned to name servers, in the order of the log.

    glibc connects a socket to each server, as do other resolvers; musl sends to all of them from
    one socket, without connect().
    """
    found = [
        AskedServer(match.task.thread_of or match.pid, match.target.words, match.line, cite(match))
        for match in name_servers(logs)
    ]
    for log in logs.logs:
        leaders = {task.pid: task.thread_of or task.pid for task in log.tasks}
        for message in log.name_messages:
            if message.answer or not message.peer.endswith(":53"):
                continue
            # Anybody may send anything to a port 53: it is a question if it reads as one.
            name = _question_name(_bytes(message.data))
            if not name:
                continue
            found.append(
                AskedServer(
                    leaders.get(message.pid, message.pid),
                    message.peer,
                    message.line,
                    Evidence(where(message), f"{who(message.pid)} asked {message.peer} for {name}"),
                )
            )
    return sorted(found, key=lambda one: one.line)


def asked_names(logs: Logs, pid: int) -> list[str]:
    """Return the names that a process asked for, from the questions that glibc sends in pairs."""
    names: dict[str, None] = {}
    for match in logs.asked("sendmmsg"):
        if (match.task.thread_of or match.pid) == pid:
            name = _question_name(_bytes(member(match, 1, "iov_base")[1:-1]))
            if name:
                names[name] = None
    for log in logs.logs:
        threads = {task.pid for task in log.tasks if pid in (task.pid, task.thread_of)} | {pid}
        for message in log.name_messages:
            name = _question_name(_bytes(message.data)) if message.pid in threads else ""
            if name and not any(known.startswith(name.rstrip("…")) for known in names):
                names[name] = None
    return list(names)


def _bytes(text: str) -> bytes:
    out = bytearray()
    at = 0
    for found in _ESCAPE.finditer(text):
        out += text[at : found.start()].encode("utf-8", "replace")
        octal, hexadecimal, plain = found.groups()
        if octal:
            out.append(int(octal, 8) & 255)
        elif hexadecimal:
            out.append(int(hexadecimal, 16))
        else:
            out.append(_NAMED.get(plain, ord(plain) & 255))
        at = found.end()
    return bytes(out + text[at:].encode("utf-8", "replace"))


def _question_name(data: bytes) -> str:
    """Return the name in a DNS question (RFC 1035, 4.1.2), as much of it as strace wrote."""
    at, parts = 12, []
    while at < len(data) and 0 < data[at] < 64:
        part = data[at + 1 : at + 1 + data[at]]
        parts.append(part.decode("ascii", "replace") + ("…" if len(part) < data[at] else ""))
        at += 1 + data[at]
    return ".".join(parts)


def answer(logs: Logs, pid: int, line: int = 0) -> str:
    """Return what the name servers answered a process last: a code, or nothing if none came.

    ``"NODATA"`` is an answer without addresses; ``"answered"`` one that has some.
    """
    last = ""
    for log in logs.logs:
        threads = {task.pid for task in log.tasks if pid in (task.pid, task.thread_of)}
        for message in log.name_messages:
            if message.answer and message.line >= line and message.pid in threads | {pid}:
                last = _code(_bytes(message.data)) or last
                if last == "answered":  # a name may have an address of one family alone
                    return last
    return last


def answer_words(code: str) -> str:
    """Return what an answer means."""
    return _MEANINGS.get(code, f"the last answer was {code}")


def _code(data: bytes) -> str:
    """Return the code of an answer (RFC 1035, 4.1.1); nothing if it is none."""
    if len(data) < 8 or not data[2] & 0x80:
        return ""
    code = data[3] & 15
    if code:
        return _CODES.get(code, f"code {code}")
    return "answered" if data[6] or data[7] else "NODATA"
