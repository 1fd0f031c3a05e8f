"""All threads of a process wait for each other.

What it means
    Every thread of a process was in futex, without a time limit, when the log ended or somebody
    killed it. A futex of a process (…_PRIVATE) can only be woken by a thread of it, and none
    runs: locks taken in different orders, a lock held by a thread that ended, or a fork that
    copied a lock while another thread held it (the child then waits for a thread that it does
    not have).
How to be sure
    postmortem core of a core (gcore PID) names who holds which lock; py-spy dump PID shows the
    Python lines.
What to do
    Take locks in one order. Do not fork a process that has threads: use spawn or forkserver.
"""

from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.diagnose.strace.arguments import argument
from postmortem.diagnose.strace.calls import who
from postmortem.diagnose.strace.waits import (
    cite_waits,
    groups_alive,
    is_private_futex,
    waits_for_ever,
    were_attached,
)
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Task


@rule(
    "https://man7.org/linux/man-pages/man2/futex.2.html",
    "https://pytorch.org/docs/stable/notes/multiprocessing.html",
)
def futex_deadlock(logs: Logs) -> Findings:
    for leader, tasks in groups_alive(logs):
        if not tasks or not all(is_private_futex(task) and waits_for_ever(task) for task in tasks):
            continue
        count = "its only thread waits" if len(tasks) == 1 else f"all {len(tasks)} threads wait"
        attached = were_attached(tasks)
        if attached:
            count = (
                "all tasks in the log wait" if len(tasks) > 1 else "the only task in the log waits"
            )
        forked = len(tasks) == 1 and logs.was_forked(leader)
        fork_words = (
            "; it is a fork that called no exec: the lock may be one that a thread of its "
            "parent held"
            if forked
            else ""
        )
        pid = leader or "PID"
        yield Finding(
            title=f"a deadlock in {who(leader)}: {count} in futex, and nobody is left to wake one",
            cause=f"{count} in futex without a time limit, for {_addresses(tasks)}; only a thread "
            "of the "
            f"same process could wake them{fork_words}{_UNSEEN if attached else ''}",
            confidence=Confidence.POSSIBLE if attached else Confidence.LIKELY,
            next_steps=(
                f"while it hangs: postmortem hang {pid}, or gcore {pid} and postmortem core",
                "fork with threads? multiprocessing.set_start_method('spawn')"
                if forked
                else "look for two locks that are taken in different orders",
            ),
            evidence=cite_waits(tasks),
        )


_UNSEEN = "; strace was attached: a thread that only computes would not be in the log"


def _addresses(tasks: tuple[Task, ...]) -> str:
    words = [argument(task.blocked, 0) for task in tasks if task.blocked]
    different = list(dict.fromkeys(words))
    if len(different) == 1:
        return f"one futex, {different[0]}"
    return f"{len(different)} futexes, " + ", ".join(different[:4])
