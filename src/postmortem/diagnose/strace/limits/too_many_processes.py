"""No further process or thread may be made.

What it means
    A fork or a new thread gave EAGAIN: the user has as many tasks as RLIMIT_NPROC allows
    (threads count, and those of all the user's jobs on the host), the cgroup as many as its
    pids.max, or the system as kernel.threads-max and pid_max. Libraries report it as "can't
    start new thread", "Resource temporarily unavailable" or by a crash.
How to be sure
    ulimit -u ; cat /sys/fs/cgroup/pids.max pids.current ; ps -eLf | wc -l.
What to do
    Make fewer threads (OMP_NUM_THREADS, num_workers), or raise the limit (docker run --pids-
    limit, TasksMax= of systemd).
"""

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.diagnose.strace.calls import where, who
from postmortem.diagnose.strace.severity import weigh_fate
from postmortem.facts.syscall_logs import Logs
from postmortem.text import counted


@rule(
    "https://man7.org/linux/man-pages/man2/clone.2.html",
    "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
    "https://docs.kernel.org/admin-guide/cgroup-v2.html",
)
def too_many_processes(logs: Logs) -> Findings:
    for row in logs.errors("EAGAIN", "clone", "clone3", "fork", "vfork")[:1]:
        weight = weigh_fate(logs.fate_of(row.pid, row.line), Confidence.CERTAIN)
        tasks = sum(1 for _ in logs.tasks())
        yield Finding(
            title=f"no further process or thread may be made: {row.syscall} by {who(row.pid)} gave "
            "EAGAIN",
            cause=f"{row.syscall} gave EAGAIN {counted(row.count, 'time')}: the limit of tasks of "
            "the user, the cgroup or the system is reached; "
            f"{counted(tasks, 'task is', 'tasks are')} in this log{weight.words}",
            confidence=weight.confidence,
            next_steps=(
                "ulimit -u ; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current",
                "ps -eLo user= | sort | uniq -c | sort -n | tail : whose tasks are they?",
                "fewer threads: OMP_NUM_THREADS=1, fewer DataLoader workers",
            ),
            evidence=(Evidence(where(row), f"{who(row.pid)} {row.syscall}: EAGAIN"),),
            role=weight.role,
        )
