"""Processes wait for each other over pipes.

What it means
    All processes of the log were in read or write on pipes, or waited for a child that was. A
    pipe holds 64 KiB: who writes more waits until somebody reads. If that one waits for the
    writer's end, or writes to it just so, both wait for ever. The other way round, a reader
    waits for an end of file that never comes, because somebody (perhaps itself) still has the
    writing end open.
How to be sure
    ls -l /proc/PID/fd of both: which pipe is which, and who else holds its other end?
What to do
    Read a child's output while it runs (communicate(), not wait()); do not write and read the
    same child in turns; close the ends that a process does not need.
"""

from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.diagnose.strace.calls import who
from postmortem.diagnose.strace.waits import (
    cite_waits,
    on_pipe,
    said_to_wait,
    waits_for_child,
    waits_for_ever,
)
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Task


@rule(
    "https://man7.org/linux/man-pages/man7/pipe.7.html",
    "https://docs.python.org/3/library/subprocess.html#subprocess.Popen.wait",
)
def pipe_deadlock(logs: Logs) -> Findings:
    alive = logs.processes_alive()
    tasks = [task for _, group in alive for task in group]
    piped = [task for task in tasks if on_pipe(task)]
    if len(alive) < 2 or not piped:
        return
    if not all((on_pipe(t) or waits_for_child(t)) and waits_for_ever(t) for t in tasks):
        return
    writers = [t for t in piped if t.blocked and "write" in t.blocked.syscall]
    words = "; ".join(said_to_wait(task) for task in tasks[:3])
    yield Finding(
        title=f"{len(alive)} processes wait for each other over pipes: {_who(tasks)}",
        cause=f"{words}; a full pipe (64 KiB) waits for its reader, and none of them reads"
        if writers
        else f"{words}; nobody is left to write, or the writing end was never closed",
        confidence=Confidence.LIKELY if writers else Confidence.POSSIBLE,
        next_steps=(
            "in Python: subprocess communicate() in place of wait(), with stdout=PIPE",
            f"while they hang: ls -l {_descriptors(piped)} ; who holds the other ends?",
        ),
        evidence=cite_waits(tasks),
    )


def _descriptors(tasks: list[Task]) -> str:
    pids = dict.fromkeys(task.pid for task in tasks)
    return " ".join(f"/proc/{'PID' if pid is None else pid}/fd" for pid in [*pids][:3])


def _who(tasks: list[Task]) -> str:
    said = [f"{who(t.pid)} in {t.blocked.syscall}" for t in tasks if t.blocked]
    return ", ".join(said[:2]) + (" …" if said[2:] else "")
