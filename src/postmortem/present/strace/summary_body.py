"""The fields of ``kind strace`` that only the summary has."""

from postmortem.present.strace.places import mounts, storms
from postmortem.present.strace.usage import outcome
from postmortem.present.strace.view import StraceView
from postmortem.present.strace.waits import waiting
from postmortem.report.contract import fill
from postmortem.report.contract import strace as shapes

SUMMARY_FIELDS = tuple(shapes.Summary.__annotations__)


def summary_fields(view: StraceView) -> dict[str, object]:
    """Return the fields by name."""
    logs = view.logs
    return fill(
        shapes.Summary,
        view,
        sockets=[
            fill(
                shapes.Socket,
                row,
                result=outcome(row),
                seconds=row.seconds or None,
                waits_in_vain=row.silent_waits,
            )
            for log in logs
            for row in log.connections
        ],
        mounts=mounts(logs),
        metadata_storms=[
            fill(shapes.Storm, row, calls_per_second=row.rate, seconds_in_calls=row.inside or None)
            for row in storms(logs)
        ],
        slow_calls=[
            fill(
                shapes.SlowCall,
                row.match,
                seconds=row.seconds,
                kind=row.pace,
                text=row.match.text[:400],
                path=row.match.target.path,
            )
            for log in logs
            for row in log.slow
        ],
        timeouts=[
            fill(shapes.Timeout, row, seconds=row.seconds or None)
            for log in logs
            for row in log.timeouts
        ],
        waits=[
            fill(shapes.Waiting, row, pids=[task.pid for task in row.tasks], for_=row.what)
            for log in logs
            for row in waiting(log)
        ],
        last_failures=[
            fill(shapes.LastFailures, pid=task.pid, failures=failures)
            for task, failures in view.last_failures
        ],
    )
