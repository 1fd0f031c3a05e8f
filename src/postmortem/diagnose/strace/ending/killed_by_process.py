"""A process of the log killed another one.

What it means
    The log shows who sent the signal that ended a process: another process of the log called
    kill, or siginfo names the sender. Launchers (torchrun, mpirun, a pool of workers) end the
    other processes after the first one failed: then the signal is a consequence, and the
    process that failed first is the one to look at.
How to be sure
    Look at what the sender did before it called kill: which wait4 returned, and with what.
What to do
    Look at the process that ended badly first, or at why the sender gave up on this one (a time
    limit of its own?).
"""

from collections.abc import Iterable

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, Subject, rule
from postmortem.diagnose.strace.calls import cite, who
from postmortem.diagnose.strace.signals import (
    cite_end,
    ended,
    passes_on,
    process_of,
    sender_words,
    sent_to_group,
    signal_calls,
)
from postmortem.diagnose.strace.stderr_errors import last_stderr_line
from postmortem.facts.syscall_logs import Fate, Logs
from postmortem.facts.syscalls import Ending, Task
from postmortem.text import more

_MOST_FOREBEARS = 1000
"""Generations; a chain of parents may also lead back to where it began."""


@rule(
    "https://man7.org/linux/man-pages/man2/kill.2.html",
    yields_to=("futex_deadlock", "lock_wait", "pipe_deadlock"),  # somebody ended what hung
    yields_as=Role.CONTRIBUTING,
)
def killed_by_process(logs: Logs) -> Findings:
    victims = [
        (task, end)
        for task, end in ended(logs)
        if end.signal and end.sender_pid not in (None, 0)
        if end.sender_pid != task.pid or _by_itself(logs, task, end)
    ]
    for task, ending in victims[:1]:
        sender = process_of(logs, ending.sender_pid or 0)
        if sender is None:
            continue
        earlier = _failed_before(logs, task, ending)
        role, why = Role.ROOT, ""
        if earlier is not None:
            role, why = (
                Role.CASCADE,
                f"; {who(earlier.pid)} had ended badly before: look at that one",
            )
        elif logs.fate_of(_judge(task, sender), ending.line) is Fate.SURVIVED:
            role, why = (
                Role.CONTEXT,
                "; who started it exited with 0"
                if sender.pid == task.pid
                else "; the sender exited with 0: this may be how it ends its workers",
            )
        elif GivenUp(logs.tasks())(task):
            role, why = (
                Role.CASCADE,
                f"; {who(sender.pid)} then failed itself: it may have ended what it had "
                "started because of that. Look at what it said",
            )
        others = more(len(victims) - 1, " (and {} more)")
        by = "itself" if sender.pid == task.pid else sender_words(sender)
        calls = signal_calls(logs, task.pid, ending.signal or "", sender.pid)
        # Of SIGKILL no siginfo tells the sender, and who is in a group is not in every log.
        sure = calls and (ending.signal != "SIGKILL" or not sent_to_group(calls[0]))
        yield Finding(
            title=f"{who(task.pid)} was killed by {ending.signal} from {by}{others}",
            cause=f"{who(sender.pid)} ({clip(sender.program or 'program not recorded', 60)}) sent "
            f"{ending.signal} to {who(task.pid)} "
            f"({clip(task.program or 'program not recorded', 60)}){why}",
            confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
            next_steps=(
                f"look at what {who(sender.pid)} did before: postmortem strace LOG --find "
                f"'syscall=wait4,kill pid={sender.pid}' -v",
                "is there a time limit in the program, its launcher or a watchdog?",
            ),
            evidence=(*map(cite, calls[:2]), cite_end(task, ending)),
            about=Subject(pid=task.pid or None, signal=ending.signal),
            role=role,
            elsewhere=role is Role.CASCADE,
        )


def _judge(task: Task, sender: Task) -> int:
    """Return whose end tells whether a signal did harm: its parent's, where it sent it itself."""
    return task.ppid if sender.pid == task.pid and task.ppid else sender.pid


class GivenUp:
    """Tells whether who started a process asked it to end, said something, and failed too."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._parents: dict[int, int] = {}
        self._failed: set[int] = set()
        for task in tasks:
            if task.ppid:
                self._parents[task.pid] = task.ppid
            end = task.ending
            if end is not None and end.code and last_stderr_line(task) is not None:
                self._failed.add(task.pid)

    def __call__(self, victim: Task) -> bool:
        end = victim.ending
        if end is None or end.signal != "SIGTERM" or end.sender_pid not in self._failed:
            return False
        pid = victim.ppid
        for _ in range(_MOST_FOREBEARS):
            if not pid or pid == end.sender_pid:
                return bool(pid)
            pid = self._parents.get(pid)
        return False


def _by_itself(logs: Logs, task: Task, end: Ending) -> bool:
    """Return whether a process killed itself; other signals a handler may have sent again."""
    return end.signal == "SIGKILL" and not passes_on(logs, task, end)


def _is_before(one: Ending, other: Ending) -> bool:
    """Return whether the log tells that a process ended before another; files of -ff by stamps."""
    if one.file == other.file:
        return one.line < other.line
    return one.time is not None and other.time is not None and one.time < other.time


def _failed_before(logs: Logs, victim: Task, ending: Ending) -> Task | None:
    """Return a process that ended badly before, by itself."""
    for task in logs.tasks():
        end = task.ending
        if end is None or task.thread_of is not None or task.pid == victim.pid:
            continue
        if task.pid == ending.sender_pid or not _is_before(end, ending):
            continue
        if end.code not in (0, None) or (end.signal and end.sender_pid in (None, task.pid)):
            return task
    return None
