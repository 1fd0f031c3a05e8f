"""A signal from outside ended a process.

What it means
    A signal ended the process, and no process of the log sent it. SIGKILL without a sender is
    what the OOM killer (of the host or of the job's cgroup) leaves, but also a batch system, a
    container runtime or kill -9 from a shell: a log cannot tell these apart. SIGTERM is how
    batch systems announce a time limit, SIGHUP a terminal that was closed, SIGINT Ctrl-C,
    SIGXCPU a limit of processor time, SIGPIPE that nobody reads the output any more.

How to be sure
    dmesg -T | grep -i 'killed process' on that host; memory.events of the cgroup (oom_kill);
    the batch system's own record (sacct -j JOB --format=State,MaxRSS,Elapsed).

What to do
    OOM: ask for more memory or use less (batch size, workers, pinned buffers). A time limit:
    ask for longer, or write checkpoints.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import (
    ANY_REASON,
    Confidence,
    Evidence,
    Finding,
    Findings,
    Subject,
    rule,
)
from postmortem.diagnose.strace.calls import where
from postmortem.diagnose.strace.signals import CRASHES, process_of
from postmortem.diagnose.strace.task_text import who
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Ending, Task
from postmortem.text import counted

_WORDS = {
    "SIGKILL": "the log shows no kill; the OOM killer, the batch system, a container runtime or a "
    "person could have sent it",
    "SIGTERM": "a batch system at its time limit, a container runtime that stops, or a person",
    "SIGINT": "Ctrl-C, or a launcher that passes it on",
    "SIGHUP": "its terminal or ssh connection was closed",
    "SIGXCPU": "its limit of processor time (ulimit -t) was reached",
    "SIGXFSZ": "its limit of file sizes (ulimit -f) was reached",
    "SIGPIPE": "it wrote into a pipe or socket that nobody reads any more",
    "SIGALRM": "its own timer (alarm) ran out",
    "SIGQUIT": "Ctrl-\\, or somebody wanted a core",
}
_STEPS = {
    "SIGKILL": (
        "dmesg -T | grep -i 'killed process' ; journalctl -k | grep -i oom : on that host",
        "cat /sys/fs/cgroup/memory.events : did oom_kill count up? sacct -j JOB "
        "--format=State,MaxRSS",
        "neither? then somebody sent it: the batch system's log, the container's events",
    ),
    "SIGTERM": (
        "sacct -j JOB --format=State,Elapsed,Timelimit ; docker events ; journalctl",
        "was it the time limit? write checkpoints, or ask for longer",
    ),
    "SIGHUP": ("start it with nohup, setsid, tmux or in a batch job",),
    "SIGINT": ("who pressed Ctrl-C, or which launcher passed it on?",),
    "SIGXCPU": ("ulimit -t ; ulimit -t unlimited",),
    "SIGXFSZ": ("ulimit -f ; ulimit -f unlimited",),
    "SIGPIPE": ("which program was at the other end of its pipe (head? tee? a dead logger?)",),
    "SIGALRM": ("the program set this time limit itself: look for alarm or setitimer",),
}


@rule(
    "https://man7.org/linux/man-pages/man7/signal.7.html",
    "https://docs.kernel.org/admin-guide/cgroup-v2.html",
    yields_to=ANY_REASON,
)
def ended_by_signal(logs: Logs) -> Findings:
    ended = [
        (task, task.ending)
        for task in logs.tasks()
        if task.thread_of is None
        and task.ending is not None
        and _from_outside(logs, task, task.ending)
    ]
    if not ended:
        return
    task, ending = ended[0]
    name = ending.signal or ""
    more = (
        ""
        if len(ended) == 1
        else f" and {counted(len(ended) - 1, 'more process', 'more processes')}"
    )
    kill = name == "SIGKILL"
    timer = name in ("SIGALRM", "SIGVTALRM", "SIGPROF") and not ending.sender_pid
    sender = f" from pid {ending.sender_pid}, which is not in the log" if ending.sender_pid else ""
    how = ", its own timer" if timer else sender or " from outside the log"
    if name == "SIGPIPE":
        how, sender = ": nobody reads what it writes", ""
    why = _WORDS.get(name, "somebody outside the log sent it")
    blocked = _was_in(task)
    yield Finding(
        title=f"{who(task.pid)}{more} {'were' if more else 'was'} killed by {name}"
        f"{how}{': the OOM killer?' if kill and not sender else ''}",
        cause=f"{clip(task.program or f'{who(task.pid)}', 80)} was ended by {name}{sender}: "
        f"{why}{blocked}",
        confidence=Confidence.POSSIBLE if kill else Confidence.LIKELY,
        next_steps=_STEPS.get(name, _STEPS["SIGTERM"]),
        evidence=tuple(
            Evidence(where(e), f"{who(t.pid)} killed by {e.signal}") for t, e in ended[:3]
        ),
        about=Subject(pid=task.pid or None, signal=name),
    )


def _was_in(task: Task) -> str:
    if task.blocked is not None:
        return f"; it was in {task.blocked.syscall}"
    if not task.interruptions or task.interruptions[0].syscall is None:
        return ""
    one = task.interruptions[0]
    on = f" on {one.target}" if one.target else ""
    lasted = f" for {one.seconds:.1f} s" if one.seconds >= 0.05 else ""
    return f"; it was in {one.syscall}{on}{lasted}"


def _from_outside(logs: Logs, task: Task, ending: Ending) -> bool:
    if ending.signal is None or ending.signal in CRASHES:
        return False
    if (
        ending.sender_pid is None or ending.signal == "SIGPIPE"
    ):  # the kernel sends that in one's name
        return True
    return ending.sender_pid != task.pid and process_of(logs, ending.sender_pid) is None
