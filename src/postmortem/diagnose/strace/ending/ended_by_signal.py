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
from postmortem.diagnose.rule import ANY_REASON, Confidence, Finding, Findings, Subject, rule
from postmortem.diagnose.strace.calls import who
from postmortem.diagnose.strace.resource_limits import limit
from postmortem.diagnose.strace.signals import CRASHES, and_more, cite_end, ended, process_of
from postmortem.diagnose.strace.stderr_errors import last_stderr_line
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Ending, Task
from postmortem.knowledge.lookup import outside_end


@rule(
    "https://man7.org/linux/man-pages/man7/signal.7.html",
    "https://docs.kernel.org/admin-guide/cgroup-v2.html",
    yields_to=ANY_REASON,
)
def ended_by_signal(logs: Logs) -> Findings:
    found = [(task, end) for task, end in ended(logs) if _from_outside(logs, task, end)]
    if not found:
        return
    # Of threads that strace was attached to, which it does not tell from processes, one is told.
    told = {ending.signal for _, ending in found if ending.sender_pid}
    found = [one for one in found if one[1].sender_pid or one[1].signal not in told]
    task, ending = found[0]
    name = ending.signal or ""
    more = and_more(len(found) - 1)
    kill = name == "SIGKILL"
    timer = name in ("SIGALRM", "SIGVTALRM", "SIGPROF") and not ending.sender_pid
    sender = f" from pid {ending.sender_pid}, which is not in the log" if ending.sender_pid else ""
    how = ", its own timer" if timer else sender or " from outside the log"
    if name == "SIGPIPE":
        how, sender = ": nobody reads what it writes", ""
    used_up = limit(logs, "RLIMIT_CPU", ending) if kill and not sender else None
    spent = used_up is not None and used_up.value is not None
    known = outside_end("signal", "SIGXCPU" if spent else name)
    why = known.means if known else "somebody outside the log sent it"
    steps = known or outside_end("signal", "SIGTERM")
    said = last_stderr_line(task)
    last = f"; it said last: {clip(said, 160)}" if said else ""
    suspect = ": its limit of processor time?" if spent else ": the OOM killer?"
    asked = next((one for one in task.interruptions if one.signal != name), None)
    if kill and not sender and asked is not None and not spent:
        by = f" from pid {asked.sender_pid}" if asked.sender_pid is not None else ""
        how = f", after {asked.signal}{by} that it did not end of"
        why = "who asks a process to end and waits in vain mostly sends it: a service manager, a "
        why += "batch system or a launcher; the OOM killer does not ask first"
    suspect = suspect if kill and how == " from outside the log" else ""
    yield Finding(
        title=f"{who(task.pid)}{more} {'were' if more else 'was'} killed by {name}{how}{suspect}",
        cause=f"{clip(task.program or f'{who(task.pid)}', 80)} was ended by {name}{sender}: "
        f"{why}{_was_in(task)}{last}",
        confidence=Confidence.POSSIBLE if kill else Confidence.LIKELY,
        next_steps=steps.steps if steps else (),
        evidence=(
            *(cite_end(*one) for one in found[:3]),
            *((used_up.evidence,) if used_up is not None and spent else ()),
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
    if ending.sender_pid is None or ending.signal == "SIGPIPE":
        return True  # the kernel sends that in one's name
    return ending.sender_pid != task.pid and process_of(logs, ending.sender_pid) is None
