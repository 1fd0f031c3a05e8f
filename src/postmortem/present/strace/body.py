"""The fields of ``kind strace`` in the JSON report."""

from collections import defaultdict

from postmortem.facts.syscall_totals import FileCount
from postmortem.facts.syscalls import Blocked, Match, SystemCalls, Target, Task
from postmortem.present.strace.summary_body import SUMMARY_FIELDS, summary_fields
from postmortem.present.strace.view import Found, StraceView
from postmortem.present.strace.waits import waited
from postmortem.report.contract import fill
from postmortem.report.contract import strace as shapes

_MOST_FILES = 1000


def strace_body(view: StraceView) -> dict[str, object]:
    """Return the fields of a log's report; what was not counted is null."""
    logs = view.logs
    counted: dict[str, object] = dict.fromkeys(("errors", "syscalls", "files", "missing_libraries"))
    if view.summary:
        counted = {
            "errors": _errors(logs),
            "syscalls": _calls(logs),
            "files": _files(logs),
            "missing_libraries": [
                {"name": name, "searched": list(folders)}
                for name, folders in view.missing_libraries
            ],
        }
    return fill(
        shapes.Strace,
        finds=[_find(found) for found in view.finds],
        processes=[_task(log, task) for log in logs for task in log.tasks],
        lines=sum(log.recording.lines for log in logs),
        unparsed_lines=sum(log.recording.unparsed for log in logs),
        recordings=[_recording(log) for log in logs],
        **counted,
        **(summary_fields(view) if view.summary else dict.fromkeys(SUMMARY_FIELDS)),
    )


def _recording(log: SystemCalls) -> dict[str, object]:
    return fill(
        shapes.Recording,
        log.recording,
        name=log.name,
        unparsed_lines=log.recording.unparsed,
        first_time=log.first_time,
        last_time=log.last_time,
    )


def _find(found: Found) -> dict[str, object]:
    return {"query": found.query, "matches": [_match(match) for match in found.matches]}


def _match(match: Match) -> dict[str, object]:
    return fill(shapes.Match, match, target=_target(match.target), process=match.task)


def _target(target: Target) -> dict[str, object]:
    return fill(shapes.Target, target, flags=target.flags or None)


def _task(log: SystemCalls, task: Task) -> dict[str, object]:
    return fill(
        shapes.Task,
        task,
        exit=task.ending,
        blocked_in=_blocked(task.blocked, waited(log, task)),
        calls=sum(call.calls for call in task.calls),
        seconds=sum(call.seconds for call in task.calls) if log.recording.durations else None,
        seconds_by_call={call.name: call.seconds for call in task.calls[:8] if call.seconds},
        interruptions=[
            fill(shapes.Interruption, one, seconds=one.seconds or None)
            for one in task.interruptions
        ],
    )


def _blocked(blocked: Blocked | None, seconds: float | None) -> dict[str, object] | None:
    if blocked is None:
        return None
    return fill(
        shapes.Blocked,
        blocked,
        target=None if blocked.target is None else _target(blocked.target),
        seconds=seconds,
        awaited=[fill(shapes.Awaited, one, target=_target(one.target)) for one in blocked.awaited],
    )


def _errors(logs: tuple[SystemCalls, ...]) -> list[dict[str, object]]:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for log in logs:
        for row in log.errors:
            counts[row.errno, row.syscall] += row.count
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"errno": e, "syscall": s, "count": count} for (e, s), count in rows]


def _calls(logs: tuple[SystemCalls, ...]) -> list[dict[str, object]]:
    totals: dict[str, tuple[int, int, float | None]] = {}
    for log in logs:
        for row in log.calls:
            calls, errors, seconds = totals.get(row.name, (0, 0, None))
            if row.seconds is not None:
                seconds = (seconds or 0.0) + row.seconds
            totals[row.name] = calls + row.calls, errors + row.errors, seconds
    rows = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    return [
        {"name": name, "calls": calls, "errors": errors, "seconds": seconds}
        for name, (calls, errors, seconds) in rows
    ]


def _files(logs: tuple[SystemCalls, ...]) -> list[dict[str, object]]:
    rows = sorted(
        (row for log in logs for row in log.files),
        key=lambda row: (-(row.read_bytes + row.written_bytes), -row.opens, row.path),
    )
    return [fill(FileCount, row) for row in rows[:_MOST_FILES]]
