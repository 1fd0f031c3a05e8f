"""Limits of a process, as the log shows that they were set or asked for."""

from postmortem.diagnose.strace.calls import cite
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Match
from postmortem.patterns import Pattern
from postmortem.records import record
from postmortem.report.model import Evidence

_CURRENT = Pattern(r"rlim_cur=(?P<value>RLIM_INFINITY|RLIM64_INFINITY|\d+(?:\*\d+)?)")


@record
class Limit:
    """A soft limit, and the call that shows it."""

    value: int | None
    """None: there is none."""
    evidence: Evidence


def limit(logs: Logs, name: str, before: Match) -> Limit | None:
    """Return the last value of a limit (``RLIMIT_AS``) that the log shows before a call.

    The call may be of a parent: a shell sets the limits that its children inherit.
    """
    found = None
    for match in logs.asked("prlimit64", "setrlimit", "getrlimit"):
        if match.file == before.file and match.line > before.line:
            continue
        if name not in match.arguments or match.errno is not None:
            continue
        value = _CURRENT.search(match.text)
        if value is not None:
            cited = cite(match)
            found = Limit(_number(value["value"]), cited)
    return found


def _number(text: str) -> int | None:
    if text.startswith("RLIM"):
        return None
    first, _, second = text.partition("*")
    return int(first) * int(second or 1)
