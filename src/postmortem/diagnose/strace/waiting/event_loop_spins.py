"""An event loop spins: its wait comes back at once, and nobody takes what it tells of.

What it means
    poll, select or epoll_wait returned again and again with a descriptor that is ready, and the
    process did nothing with it: it neither read nor closed it. A descriptor whose other end is
    closed (POLLHUP, EPOLLHUP, a read of 0 bytes) stays ready for ever, and so does one that a
    loop watches but has no handler for. The process uses a whole core and gets nowhere.
How to be sure
    top -H -p PID shows a thread at 100 %; the result of the wait names the descriptor, and
    ls -l /proc/PID/fd what it is.
What to do
    Close a descriptor, and take it out of the set, when its other end has gone; read until
    EAGAIN what is ready; watch for EPOLLOUT only while there is something to write.
"""

from collections.abc import Sequence

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.diagnose.strace.calls import TEXT_LIMIT, where, who
from postmortem.diagnose.strace.waits import groups_alive
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Task, TaskCall

_READY = frozenset({
    "poll", "ppoll", "ppoll_time64", "select", "_newselect", "pselect6", "pselect6_time64",
    "epoll_wait", "epoll_pwait", "epoll_pwait2",
})  # fmt: skip
_CLOCKS = frozenset({"clock_gettime", "clock_gettime64", "gettimeofday", "time"})
_READS = frozenset({"read", "readv", "recv", "recvfrom", "recvmsg"})


@rule(
    "https://man7.org/linux/man-pages/man2/poll.2.html",
    "https://man7.org/linux/man-pages/man7/epoll.7.html",
)
def event_loop_spins(logs: Logs) -> Findings:
    for _, tasks in groups_alive(logs):
        for task in tasks:
            wait = _spins(task, tasks)
            if wait is None or _is_slow(logs, task, wait):
                continue
            others = any(call.name not in _READY for log in logs.logs for call in log.calls)
            many = others and wait.brought >= thresholds.SPIN_SURE_WAITS
            unseen = (
                "" if others else "; the log has no other calls: was it recorded with -e trace=?"
            )
            yield Finding(
                title=f"{who(task.pid)} spins: {wait.name} came back {wait.brought:,} times with "
                "something ready, and nobody took it",
                cause=f"{wait.name} returned at once, again and again, and between these calls "
                f"{who(task.pid)} neither read, wrote nor closed anything: a descriptor whose "
                f"other end is closed, or that nothing handles, stays ready for ever{unseen}",
                confidence=Confidence.LIKELY if many else Confidence.POSSIBLE,
                next_steps=(
                    f"ls -l /proc/{task.pid or 'PID'}/fd : what is the descriptor that the wait "
                    "names?",
                    "close it, and take it out of the set, when its other end has gone; or read it",
                ),
                evidence=(Evidence(where(wait), clip(f"{who(task.pid)} {wait.text}", TEXT_LIMIT)),),
                about=Subject(pid=task.pid or None),
            )
            return


def _spins(task: Task, process: Sequence[Task]) -> TaskCall | None:
    """Return the wait that found something ready so often that nothing else counts beside it.

    What another thread of the process does may be what the wait told of.
    """
    waits = [call for call in task.calls if call.name in _READY and call.brought]
    wait = max(waits, key=lambda call: call.brought, default=None)
    if wait is None or wait.brought < thresholds.SPIN_WAITS:
        return None
    done = sum(
        call.brought if call.name in _READS else call.calls
        for one in process
        for call in one.calls
        if call is not wait and call.name not in _CLOCKS
    )
    return wait if done * thresholds.SPIN_SHARE <= wait.brought else None


def _is_slow(logs: Logs, task: Task, wait: TaskCall) -> bool:
    """Return whether there was time between its waits, where the log tells of times."""
    log = next(log for log in logs.logs if task in log.tasks)
    lasted = log.seconds_to_end(log.first_time if task.began is None else task.began)
    return lasted is not None and lasted > wait.brought * thresholds.SPIN_SECONDS
