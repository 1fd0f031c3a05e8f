"""What kernels wrote, joined to the logs of the ranks that ran on them."""

from calendar import timegm
from collections.abc import Sequence
from time import localtime

from postmortem.facts.last_lines import LastLines
from postmortem.facts.rank_logs import RankLogs
from postmortem.facts.source import Problem, Source
from postmortem.readers.log_clock import last_time
from postmortem.readers.ranklogs.pids import rank_pids
from postmortem.records import replace


def with_kernel(
    logs: RankLogs, paths: Sequence[str], sources: list[Source], problems: list[Problem]
) -> RankLogs:
    """Return the facts with what kernels wrote, in files of their own or between other lines."""
    pids = rank_pids(logs)
    quoted = [r for r in logs.remarks if r.match("says-xid", "kernel-killed")]
    if not paths and not quoted:
        return replace(logs, pids=pids)
    from postmortem.readers.kernel_log.read import (  # few jobs have kernel logs
        events_of_remarks,
        host_in_name,
        read_kernel_logs,
    )

    hosts = {*logs.hosts, *(one.host for one in pids if one.host)}
    kernel = read_kernel_logs(paths, sources, problems)
    events = [
        replace(e, host=host_in_name(e.file, hosts)) if e.host is None else e for e in kernel.events
    ]
    events += events_of_remarks(quoted, {i: w.host for i, w in enumerate(logs.writers)})
    if events:
        logs = replace(logs, last_lines=tuple(map(_timed, logs.last_lines)))
    return replace(logs, pids=pids, kernel=replace(kernel, events=tuple(events)))


def _timed(found: LastLines) -> LastLines:
    """Return it with the last time in its file, of no zone as the times of kernel logs."""
    time = last_time(found.last.file)
    return found if time is None else replace(found, time=float(timegm(localtime(time))))
