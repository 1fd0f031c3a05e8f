"""A process crashed.

What it means
    A fault of the program itself ended it: a bad address (SIGSEGV, SIGBUS), abort by itself or
    by the C library (SIGABRT), a division, an instruction that the processor does not have, or
    a call that a seccomp filter forbids (SIGSYS). System calls do not show where: a core does.
How to be sure
    postmortem core on its core; the last lines that the process wrote to descriptor 2 before it
    ended.
What to do
    Run again with ulimit -c unlimited and explain the core; python -X faulthandler prints the
    Python stack.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Finding, Findings, Subject, rule
from postmortem.diagnose.strace.calls import who
from postmortem.diagnose.strace.signals import (
    CRASHES,
    and_more,
    cite_end,
    crash_words,
    ended,
    passes_on,
    process_of,
)
from postmortem.diagnose.strace.stderr_errors import last_stderr_line
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Ending, Failures, Task


@rule(
    "https://man7.org/linux/man-pages/man7/signal.7.html",
    "https://man7.org/linux/man-pages/man5/core.5.html",
)
def crashed(failures: Failures, logs: Logs) -> Findings:
    mapped = {match.pid for group in failures.of("SIGBUS") for match in group.matches}
    found = [
        (task, end)
        for task, end in ended(logs)
        if end.signal in CRASHES and task.pid not in mapped and not _sent(logs, task, end)
    ]
    if not found:
        return
    task, ending = found[0]
    more = and_more(len(found) - 1)
    core = " and left a core" if ending.core else ""
    said = last_stderr_line(task)
    last = f"; it said last: {clip(said, 160)}" if said else ""
    aborted = ending.signal == "SIGABRT" and said  # who calls abort says why before it
    found_out = crash_words(ending)
    words = f"it said last: {clip(said or '', 80)}" if aborted else found_out
    yield Finding(
        title=f"{who(task.pid)}{more} crashed: {ending.signal}, {words}",
        cause=f"{clip(task.program or f'{who(task.pid)}', 80)} was ended by {ending.signal} "
        f"({found_out}){core}{last}; where it stood is not in a log of system calls",
        confidence=Confidence.LIKELY,
        next_steps=(
            "postmortem core CORE : coredumpctl dump, or core files in its folder"
            if ending.core
            else "ulimit -c unlimited, run again, then: postmortem core",
            f"what it said: postmortem strace LOG --find 'syscall=write fd=2 pid={task.pid}' -v",
        ),
        evidence=tuple(cite_end(*one) for one in found[:3]),
        about=Subject(pid=task.pid or None, signal=ending.signal),
    )


def _sent(logs: Logs, task: Task, ending: Ending) -> bool:
    """Return whether the signal was sent: by another process, or by one that passes it on."""
    if ending.sender_pid is None:
        return False
    if ending.sender_pid != task.pid:
        return process_of(logs, ending.sender_pid) is not None
    return passes_on(logs, task, ending)
