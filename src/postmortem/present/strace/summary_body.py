"""The fields of ``kind strace`` that only the summary has."""

from __future__ import annotations

from postmortem.present.strace.places import mounts, storms
from postmortem.present.strace.usage import outcome
from postmortem.present.strace.view import StraceView
from postmortem.present.strace.waits import waiting

SUMMARY_FIELDS = (
    "sockets",
    "mounts",
    "metadata_storms",
    "slow_calls",
    "timeouts",
    "waits",
    "last_failures",
    "remarks",
)


def summary_fields(view: StraceView) -> dict[str, object]:
    """Return the fields by name."""
    logs = view.logs
    return {
        "sockets": [
            {
                "pid": row.pid,
                "fd": row.fd,
                "peer": row.peer,
                "result": outcome(row),
                "line": row.line,
                "seconds": row.seconds or None,
                "waits_in_vain": row.silent_waits,
            }
            for log in logs
            for row in log.connections
        ],
        "mounts": [
            {
                "prefix": row.prefix,
                "files": row.files,
                "opens": row.opens,
                "reads": row.reads,
                "writes": row.writes,
                "read_bytes": row.read_bytes,
                "written_bytes": row.written_bytes,
                "errors": row.errors,
                "lookups": row.lookups,
                "lookup_errors": row.lookup_errors,
            }
            for row in mounts(logs)
        ],
        "metadata_storms": [
            {
                "folder": row.folder,
                "calls": row.calls,
                "errors": row.errors,
                "folders": row.folders,
                "seconds": row.seconds,
                "calls_per_second": row.rate,
                "seconds_in_calls": row.inside or None,
            }
            for row in storms(logs)
        ],
        "slow_calls": [
            {
                "seconds": row.seconds,
                "kind": row.pace,
                "file": row.match.file,
                "line": row.match.line,
                "began_line": row.match.began_line,
                "pid": row.match.pid,
                "syscall": row.match.syscall,
                "text": row.match.text[:400],
                "path": row.match.target.path,
                "errno": row.match.errno,
            }
            for log in logs
            for row in log.slow
        ],
        "timeouts": [
            {
                "syscall": row.syscall,
                "target": row.target,
                "text": row.text,
                "count": row.count,
                "seconds": row.seconds or None,
                "line": row.line,
                "pid": row.pid,
            }
            for log in logs
            for row in log.timeouts
        ],
        "waits": [
            {
                "pids": [task.pid for task in row.tasks],
                "syscall": row.syscall,
                "line": row.line,
                "seconds": row.seconds,
                "for": row.what,
            }
            for log in logs
            for row in waiting(log)
        ],
        "last_failures": [
            {
                "pid": task.pid,
                "failures": [
                    {
                        "errno": one.errno,
                        "syscall": one.syscall,
                        "path": one.path,
                        "line": one.line,
                        "pid": one.pid,
                    }
                    for one in failures
                ],
            }
            for task, failures in view.last_failures
        ],
        "remarks": [
            {"where": one.where, "what": one.what, "remedy": one.remedy} for one in view.remarks
        ],
    }
