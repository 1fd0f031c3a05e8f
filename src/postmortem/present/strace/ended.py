"""What became of the processes of a log, and what the log cannot answer."""

from collections.abc import Iterator, Sequence

from postmortem.diagnose.strace.recording_limits import RECORD, hidden
from postmortem.facts.source import Problem
from postmortem.facts.syscalls import SystemCalls
from postmortem.present.headline.strace import ended_badly
from postmortem.present.strace.view import StraceView
from postmortem.report.model import Diagnosis, Role
from postmortem.text import counted, some


def failed(view: StraceView, diagnoses: Sequence[Diagnosis]) -> bool:
    """Return whether a query found something, or a process ended badly."""
    if not view.summary:
        return any(found.matches for found in view.finds)
    if any(diagnosis.role is Role.ROOT for diagnosis in diagnoses):
        return True
    return any(ended_badly(log) is not None for log in view.logs)


def all_ended_well(view: StraceView) -> bool:
    """Return whether every recording holds the end of its first process, with 0."""
    firsts = [log.tasks[0].ending if log.tasks else None for log in view.logs]
    return bool(firsts) and all(end is not None and end.code == 0 for end in firsts)


def unanswered(log: SystemCalls, *, process: int | None, summary: bool) -> Iterator[Problem]:
    """Yield why answers may be missing."""
    if process is not None and not any(t.pid == process for t in log.tasks):
        what = f"process {process} is not in the log"
        seen = [task.pid for task in log.tasks if task.thread_of is None]
        yield Problem(log.name, what, f"it has {some(seen)}" if seen else None)
    if summary and process is None:
        yield from hidden(log)
        return
    unknown = [m for m in log.matches if m.fd is not None and m.target.source == "unknown"]
    if unknown and not log.recording.opens:
        what = "no open is in the log (-Z, -e trace=, strace -p): descriptors stay unknown"
        yield Problem(log.name, what, f"record the opens too: {RECORD}")


def footer(logs: Sequence[SystemCalls]) -> tuple[str, ...]:
    """Return how much was read, and how it was recorded."""
    lines = sum(log.recording.lines for log in logs)
    unread = sum(log.recording.unparsed for log in logs)
    read = f"{counted(lines, 'line')}, {unread:,} unread"
    if any(log.recording.searched for log in logs):
        read = f"{counted(lines, 'line')} searched"
    options = list(dict.fromkeys(option for log in logs for option in log.recording.options))
    return (read, f"recorded with {' '.join(options)}") if options else (read,)
