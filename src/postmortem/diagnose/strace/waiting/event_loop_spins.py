"""A loop spins: its calls come back at once, and nothing comes of them.

What it means
    poll, select or epoll_wait returned again and again with a descriptor that is ready, and the
    process did nothing with it: it neither read nor closed it. A descriptor whose other end is
    closed (POLLHUP, EPOLLHUP, a read of 0 bytes) stays ready for ever, and so does one that a
    loop watches but has no handler for. Or the process reads, at the end of a file or where
    nothing has come yet (EAGAIN), over and over, or tries a futex that is never as it expects.
    Or it does nothing but ask how much there is to read (FIONREAD). It uses a whole core and gets
    nowhere. Who gives its processor away again and again (sched_yield) is no such loop: so do waits
    for a GPU, MPI and OpenBLAS, of jobs that are well.
How to be sure
    top -H -p PID shows a thread at 100 %; the result of the wait names the descriptor, and
    ls -l /proc/PID/fd what it is.
What to do
    Close a descriptor, and take it out of the set, when its other end has gone; read until
    EAGAIN what is ready, and wait then; watch for EPOLLOUT only while there is something to
    write.
"""

from collections.abc import Sequence

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.diagnose.strace.arguments import argument
from postmortem.diagnose.strace.calls import TEXT_LIMIT, where, who
from postmortem.diagnose.strace.waits import groups_alive
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Task, TaskCall

_READY = frozenset({
    "poll", "ppoll", "ppoll_time64", "select", "_newselect", "pselect6", "pselect6_time64",
    "epoll_wait", "epoll_pwait", "epoll_pwait2",
})  # fmt: skip
_FUTEX = frozenset({"futex", "futex_time64"})
_READS = frozenset({"read", "readv", "recv", "recvfrom", "recvmsg"})
_ASKS = "ioctl"
_LOOKS = frozenset({
    "clock_gettime", "clock_gettime64", "gettimeofday", "time", "fcntl", "fcntl64", "getpid",
    "gettid",
})  # fmt: skip
"""They neither bring anything nor do anything to anybody."""


@rule(
    "https://man7.org/linux/man-pages/man2/poll.2.html",
    "https://man7.org/linux/man-pages/man7/epoll.7.html",
)
def event_loop_spins(logs: Logs) -> Findings:
    for _, tasks in groups_alive(logs):
        for task in tasks:
            call = _spins(task, tasks)
            if call is None or _is_slow(logs, task, call):
                continue
            others = any(one.name != call.name for other in logs.tasks() for one in other.calls)
            many = others and _idle(call) >= thresholds.SPIN_SURE_WAITS
            yield _told(task, call, others, many)
            return


def _told(task: Task, call: TaskCall, others: bool, many: bool) -> Finding:
    steps: tuple[str, ...]
    unseen = "" if others else "; the log has no other calls: was it recorded with -e trace=?"
    if call.name in _READY:
        found = "with something ready, and nobody took it"
        cause = (
            f"between these calls {who(task.pid)} neither read, wrote nor closed anything: a "
            "descriptor whose other end is closed, or that nothing handles, stays ready for ever"
        )
        steps = (
            f"ls -l /proc/{task.pid or 'PID'}/fd : what is the descriptor that the wait names?",
            "close it, and take it out of the set, when its other end has gone; or read it",
        )
    elif call.name in _READS:
        found = "with nothing, and it went on"
        cause = (
            f"{who(task.pid)} neither waited nor did anything else between these calls: at the end "
            "of a file, and where the other end has gone, nothing will ever come"
        )
        steps = (
            f"ls -l /proc/{task.pid or 'PID'}/fd : what is the descriptor that it reads?",
            "a read of 0 bytes is the end: close it; after EAGAIN, wait with poll",
        )
    elif call.name == _ASKS:
        found = "and it did nothing else"
        cause = (
            f"{who(task.pid)} waits, without a call that waits, for data that does not come: who "
            "should bring it is to be found"
        )
        steps = ("while it spins: postmortem hang PID : whom does it wait for?",)
    else:
        found = "with EAGAIN"
        cause = (
            f"the futex did not hold what {who(task.pid)} expected, and it tried again at once: "
            "its memory is damaged, or a lock was left as its owner died"
        )
        steps = ("while it spins: postmortem hang PID, or gcore PID and postmortem core",)
    return Finding(
        title=f"{who(task.pid)} spins: {call.name} came back {_idle(call):,} times {found}",
        cause=f"{call.name} returned at once, again and again, and {cause}{unseen}",
        confidence=Confidence.LIKELY if many else Confidence.POSSIBLE,
        next_steps=steps,
        evidence=(Evidence(where(call), clip(f"{who(task.pid)} {call.text}", TEXT_LIMIT)),),
        about=Subject(pid=task.pid or None),
    )


def _spins(task: Task, process: Sequence[Task]) -> TaskCall | None:
    """Return the call that came back so often for nothing that nothing else counts beside it.

    What another thread of the process does may be what the wait told of.
    """
    call = max((one for one in task.calls if _is_enough(one)), key=_telling, default=None)
    if call is None:
        return None
    waits = [one for one in task.calls if one.name in _READY and _idle(one) == _idle(call)]
    done = sum(_done(one) for other in process for one in other.calls)
    return (*waits, call)[0] if done * thresholds.SPIN_SHARE <= _idle(call) else None


def _is_enough(call: TaskCall) -> bool:
    least = thresholds.SNIPPET_CALLS if call.name == _ASKS else thresholds.SPIN_WAITS
    return _idle(call) >= least


def _telling(call: TaskCall) -> tuple[bool, int]:
    """Order calls by what they tell: who asks how much there is does so to read it."""
    return call.name != _ASKS, _idle(call)


def _idle(call: TaskCall) -> int:
    """Return how many calls came back at once with nothing, or with what nobody took."""
    if call.name in _READY:
        return call.brought
    if call.name in _READS:
        return call.calls - call.brought
    if call.name == _ASKS and argument(call, 1) == "FIONREAD":
        return call.calls - call.brought
    return call.again if call.name in _FUTEX else 0


def _done(call: TaskCall) -> int:
    """Return how many calls did something, or waited."""
    return 0 if call.name in _LOOKS else call.calls - _idle(call)


def _is_slow(logs: Logs, task: Task, call: TaskCall) -> bool:
    """Return whether there was time between its calls, where the log tells of times."""
    log = next(log for log in logs.logs if task in log.tasks)
    lasted = log.seconds_to_end(log.first_time if task.began is None else task.began)
    return lasted is not None and lasted > _idle(call) * thresholds.SPIN_SECONDS
