"""The fields of ``kind strace`` in the JSON report, as docs/report-schema.md lays them down."""

from __future__ import annotations

from collections import defaultdict

from postmortem.facts.syscalls import Blocked, LogPlace, Match, SystemCalls, Target, Task
from postmortem.present.strace.summary_body import SUMMARY_FIELDS, summary_fields
from postmortem.present.strace.view import Found, StraceView
from postmortem.present.strace.waits import waited

_MOST_FILES = 1000


def strace_body(view: StraceView) -> dict[str, object]:
    """Return the fields of a log's report; what was not counted is null."""
    logs = view.logs
    return {
        "finds": [_find(found) for found in view.finds],
        "processes": [_task(log, task) for log in logs for task in log.tasks],
        "errors": _errors(logs) if view.summary else None,
        "syscalls": _calls(logs) if view.summary else None,
        "files": _files(logs) if view.summary else None,
        **(summary_fields(view) if view.summary else dict.fromkeys(SUMMARY_FIELDS)),
        "missing_libraries": [
            {"name": name, "searched": list(folders)} for name, folders in view.missing_libraries
        ]
        if view.summary
        else None,
        "lines": sum(log.recording.lines for log in logs),
        "unparsed_lines": sum(log.recording.unparsed for log in logs),
        "recordings": [
            {
                "name": log.name,
                "lines": log.recording.lines,
                "unparsed_lines": log.recording.unparsed,
                "options": list(log.recording.options),
                "io_uring": log.recording.io_uring,
                "first_time": log.first_time,
                "last_time": log.last_time,
                "from_start": log.recording.from_start,
            }
            for log in logs
        ],
    }


def _find(found: Found) -> dict[str, object]:
    return {"query": found.query, "matches": [_match(match) for match in found.matches]}


def _match(match: Match) -> dict[str, object]:
    task = match.task
    return {
        "file": match.file,
        "line": match.line,
        "began_line": match.began_line,
        "pid": match.pid,
        "time": match.time,
        "syscall": match.syscall,
        "text": match.text,
        "errno": match.errno,
        "fd": match.fd,
        "injected": match.injected,
        "seconds": match.seconds,
        "inferred": match.inferred,
        "target": _target(match.target),
        "process": {
            "pid": task.pid,
            "argv": None if task.argv is None else list(task.argv),
            "ppid": task.ppid,
            "thread_of": task.thread_of,
            "rank": task.rank,
            "local_rank": task.local_rank,
        },
    }


def _target(target: Target) -> dict[str, object]:
    return {
        "path": target.path,
        "kind": target.kind,
        "deleted": target.deleted,
        "nameless": target.nameless,
        "source": target.source,
        "guessed": target.guessed,
        "opened": _place(target.opened),
        "given": _place(target.given),
        "flags": target.flags or None,
        "written_bytes": target.written_bytes,
        "read_bytes": target.read_bytes,
    }


def _place(place: LogPlace | None) -> dict[str, object] | None:
    if place is None:
        return None
    return {
        "line": place.line,
        "pid": place.pid,
        "syscall": place.syscall,
        "file": place.file,
    }


def _task(log: SystemCalls, task: Task) -> dict[str, object]:
    end = task.ending
    return {
        "pid": task.pid,
        "ppid": task.ppid,
        "thread_of": task.thread_of,
        "argv": None if task.argv is None else list(task.argv),
        "exit": None
        if end is None
        else {
            "code": end.code,
            "signal": end.signal,
            "core": end.core,
            "line": end.line,
            "sender_pid": end.sender,
            "time": end.time,
            "told": end.told,
        },
        "blocked_in": _blocked(task.blocked, waited(log, task)),
        "rank": task.rank,
        "local_rank": task.local_rank,
        "began": task.began,
        "recorded": task.recorded,
        "calls": sum(call.calls for call in task.calls),
        "seconds": sum(call.seconds for call in task.calls) if log.recording.durations else None,
        "seconds_by_call": {call.name: call.seconds for call in task.calls[:8] if call.seconds},
        "last_words": list(task.last_words),
        "open_for_writing": list(task.open_for_writing),
        "interruptions": [
            {
                "signal": one.signal,
                "sender_pid": one.sender,
                "line": one.line,
                "pid": one.pid,
                "syscall": one.syscall,
                "target": one.target,
                "seconds": one.seconds or None,
            }
            for one in task.interruptions
        ],
    }


def _blocked(blocked: Blocked | None, seconds: float | None) -> dict[str, object] | None:
    if blocked is None:
        return None
    return {
        "line": blocked.line,
        "syscall": blocked.syscall,
        "text": blocked.text,
        "target": None if blocked.target is None else _target(blocked.target),
        "since": blocked.since,
        "seconds": seconds,
        "awaited": [
            {
                "fd": one.fd,
                "target": _target(one.target),
                "other_end_known": one.paired,
                "holders": [{"pid": holder.pid, "fd": holder.fd} for holder in one.holders],
                "holder_count": one.holder_count,
            }
            for one in blocked.awaited
        ],
        "futex": None
        if blocked.futex is None
        else {
            "woken_by": blocked.futex.woken_by,
            "woken_line": blocked.futex.woken_line,
            "passed_by": blocked.futex.passed_by,
            "passed_line": blocked.futex.passed_line,
        },
    }


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
    return [
        {
            "path": row.path,
            "opens": row.opens,
            "read_bytes": row.read_bytes,
            "written_bytes": row.written_bytes,
            "errors": row.errors,
            "reads": row.reads,
            "writes": row.writes,
        }
        for row in rows[:_MOST_FILES]
    ]
