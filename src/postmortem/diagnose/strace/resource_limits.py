"""Limits of a process, as the log shows that they were set or asked for."""

from postmortem.diagnose.strace.arguments import argument, member
from postmortem.diagnose.strace.calls import OfLog, cite
from postmortem.facts.syscall_logs import Logs
from postmortem.records import record
from postmortem.report.model import Evidence


@record
class Limit:
    """A soft limit, and the call that shows it."""

    value: int | None
    """None: there is none."""
    evidence: Evidence


def limit(logs: Logs, name: str, before: OfLog) -> Limit | None:
    """Return the last value of a limit (``RLIMIT_AS``) that the log shows before a call.

    The call may be of a parent: a shell sets the limits that its children inherit.
    """
    found = None
    for match in logs.asked("prlimit64", "setrlimit", "getrlimit"):
        if match.file == before.file and match.line > before.line:
            continue
        behind = int(match.syscall == "prlimit64")  # its first argument is a process
        if argument(match, behind) != name or match.errno is not None:
            continue
        # What prlimit() sets comes before what it tells; setrlimit() and getrlimit() have one.
        told = (member(match, behind + place, "rlim_cur") for place in (1, 2))
        value = next(filter(None, told), "")
        if value.startswith("RLIM") or value.replace("*", "", 1).isdecimal():
            found = Limit(_number(value), cite(match))
    return found


def _number(text: str) -> int | None:
    if text.startswith("RLIM"):
        return None
    first, _, second = text.partition("*")
    return int(first) * int(second or 1)
