"""Calls that tasks were in at the end, and whether anything but another task could end them."""

from collections.abc import Iterable, Sequence

from postmortem.diagnose.names import clip
from postmortem.diagnose.strace.arguments import argument
from postmortem.diagnose.strace.calls import where, who
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Awaited, Task
from postmortem.report.model import Evidence

_SOCKET_CALLS = frozenset({
    "recvfrom", "recvmsg", "recvmmsg", "recv", "read", "readv", "accept", "accept4", "connect",
    "sendto", "sendmsg", "write", "writev", "poll", "ppoll", "select", "pselect6",
})  # fmt: skip
_PIPE_CALLS = frozenset({"read", "readv", "write", "writev", "splice", "poll", "ppoll"})
_FUTEX_WAITS = ("FUTEX_WAIT", "FUTEX_LOCK_PI")
_MOST_CITED = 4


def is_private_futex(task: Task) -> bool:
    """Return whether a task waits in a futex that only its own process can wake."""
    blocked = task.blocked
    if blocked is None or blocked.syscall != "futex":
        return False
    operation = argument(blocked, 1)
    return operation.startswith(_FUTEX_WAITS) and "_PRIVATE" in operation


def waits_for_ever(task: Task) -> bool:
    """Return whether the call that a task was in has no time limit."""
    blocked = task.blocked
    if blocked is None:
        return False
    if blocked.syscall == "futex":
        return argument(blocked, 3).startswith("NULL")
    if blocked.syscall in ("poll", "ppoll"):
        return not argument(blocked, 2)[:1].isdecimal() and argument(blocked, 2)[:1] != "{"
    if blocked.syscall in ("select", "pselect6"):
        return not argument(blocked, 4).startswith("{")
    return True


def awaited_socket(task: Task) -> Awaited | None:
    """Return the socket that a task waited for, and who has its other end."""
    blocked = task.blocked
    if blocked is None or blocked.syscall not in _SOCKET_CALLS:
        return None
    for one in blocked.awaited:
        if one.target.kind == "socket" and len(blocked.awaited) == 1:
            return one
    if blocked.target is not None and blocked.target.kind == "socket":
        return Awaited(-1, blocked.target)
    return None


def on_pipe(task: Task) -> bool:
    """Return whether a task was in a call on a pipe."""
    blocked = task.blocked
    if blocked is None or blocked.target is None or blocked.syscall not in _PIPE_CALLS:
        return False
    return blocked.target.kind == "pipe"


def waits_for_child(task: Task) -> bool:
    """Return whether a task waited for a child to end."""
    return task.blocked is not None and task.blocked.syscall in ("wait4", "waitid", "waitpid")


def said_to_wait(task: Task) -> str:
    """Return who waited in which call."""
    assert task.blocked is not None
    return f"{who(task.pid)} was in {task.blocked.syscall}"


def cite_waits(tasks: Sequence[Task]) -> tuple[Evidence, ...]:
    """Return the lines on which calls began that never ended."""
    waits = [(task.pid, task.blocked) for task in tasks if task.blocked is not None]
    return tuple(
        Evidence(where(blocked), clip(f"{who(pid)} {blocked.text}", 200))
        for pid, blocked in waits[:_MOST_CITED]
    )


def were_attached(tasks: Iterable[Task]) -> bool:
    """Return whether strace -p found tasks alive: such a log has neither forks nor programs."""
    return all(task.ppid is None and task.argv is None for task in tasks)


def groups_alive(logs: Logs) -> list[tuple[int, tuple[Task, ...]]]:
    """Return the processes alive; tasks that strace -p found alive are taken for one of them.

    Such a log has neither their forks nor their programs. The first of a process has the lowest
    number, and a task that waits is no sign of a deadlock while another one of them runs.
    """
    known: list[tuple[int, tuple[Task, ...]]] = []
    found: list[Task] = []
    for leader, tasks in logs.processes_alive():
        if were_attached(tasks):
            found += tasks
        else:
            known.append((leader, tasks))
    if found:
        known.append((min(task.process for task in found), tuple(found)))
    return known
