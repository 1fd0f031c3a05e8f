"""Signals that end processes, and who sent them."""

from collections.abc import Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.strace.arguments import argument
from postmortem.diagnose.strace.calls import where, who
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Ending, Match, Task
from postmortem.report.model import Evidence
from postmortem.text import counted

CRASHES = {
    "SIGSEGV": "a bad address",
    "SIGBUS": "memory that it could not get",
    "SIGABRT": "it, or the C library, called abort",
    "SIGFPE": "a division or overflow",
    "SIGILL": "an instruction that the processor does not have",
    "SIGTRAP": "a trap of the compiler or a debugger",
    "SIGSYS": "a call that a seccomp filter forbids",
    "SIGSTKFLT": "a fault of the stack",
}
"""Signals by which a program's own fault ends it, in words."""


def ended(logs: Logs) -> Iterator[tuple[Task, Ending]]:
    """Yield the processes of which the log has the end, without their threads."""
    for task in logs.tasks():
        if task.thread_of is None and task.ending is not None:
            yield task, task.ending


def cite_end(task: Task, end: Ending) -> Evidence:
    """Return how a process ended."""
    how = f"exited with {end.code}" if end.signal is None else f"killed by {end.signal}"
    return Evidence(where(end), f"{who(task.pid)} {how}")


def and_more(count: int) -> str:
    """Return how many processes more ended so; nothing for none."""
    return f" and {counted(count, 'more process', 'more processes')}" if count else ""


def process_of(logs: Logs, pid: int) -> Task | None:
    """Return the process with a pid, if the log has it."""
    return logs.first(pid) if pid else None


def sender_words(task: Task) -> str:
    """Return who a sender is, short enough for a title."""
    program = (task.argv or ("",))[0].rpartition("/")[2]
    return f"{who(task.pid)}" + (f" ({clip(program, 30)})" if program else "")


def signal_calls(logs: Logs, victim: int, signal: str, sender: int) -> list[Match]:
    """Return the calls by which a process sent a signal to another one or to its group."""
    calls = logs.asked("kill", "tkill", "tgkill", "pidfd_send_signal", "rt_sigqueueinfo")
    mine = [c for c in calls if (c.task.thread_of or c.pid) == sender and signal in c.arguments]
    to_it = [c for c in mine if argument(c, 0).removeprefix("-") == str(victim)]
    return to_it or [c for c in mine if argument(c, 0) == "0" or argument(c, 0).startswith("-")]
