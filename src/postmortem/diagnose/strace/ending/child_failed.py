"""A child failed, and the process that started it exited with 0.

What it means
    A process wrote to its standard error and ended badly, but whoever started it (a shell
    without set -e, a launcher) went on and exited with 0, so the job as a whole looks fine. It
    may be a step that may fail, or the step that mattered.
How to be sure
    Read what it wrote; look whether what it was to make is there.
What to do
    In shell scripts: set -e -o pipefail, or test the status of the step.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import ANY_REASON, Confidence, Finding, Findings, Role, Subject, rule
from postmortem.diagnose.strace.calls import ANSWERING, who
from postmortem.diagnose.strace.signals import cite_end
from postmortem.diagnose.strace.stderr_errors import last_stderr_line
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Task
from postmortem.text import more


@rule(
    "https://man7.org/linux/man-pages/man2/wait.2.html",
    role=Role.CONTRIBUTING,
    yields_to=ANY_REASON,
)
def child_failed(logs: Logs) -> Findings:
    failed = [task for task in logs.tasks() if _hidden(logs, task)]
    if not failed:
        return
    task = failed[-1]
    parent = logs.task(task.ppid or 0)
    assert parent is not None
    assert parent.ending is not None
    assert task.ending is not None
    end = task.ending
    how = f"exited with {end.code}" if end.signal is None else f"was killed by {end.signal}"
    said = last_stderr_line(task)
    program = (task.argv or ("a child",))[0].rpartition("/")[2]
    named = f" ({clip(program, 30)})" if program.strip("…") else ""
    others = more(len(failed) - 1, "; {} more children failed the same way")
    yield Finding(
        title=f"{who(task.pid)}{named} {how}, and its parent went on",
        cause=f"{clip(task.program or program, 80)} {how}"
        f"{f' and said: {clip(said, 80)}' if said else ''}; "
        f"{who(parent.pid)}, which started it, exited with 0{others}",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            f"what it said: postmortem strace LOG --find 'syscall=write fd=2 pid={task.pid}' -v",
            "was it a step that may fail? in shell scripts set -e -o pipefail makes it count",
        ),
        evidence=(cite_end(task, end), cite_end(parent, parent.ending)),
        about=Subject(pid=task.pid or None),
    )


def _hidden(logs: Logs, task: Task) -> bool:
    end = task.ending
    if task.thread_of is not None or end is None or end.code == 0 or not task.ppid:
        return False
    parent = logs.task(task.ppid)
    if parent is None or parent.ending is None or parent.ending.code != 0:
        return False
    name = (task.argv or ("",))[0].rpartition("/")[2]
    if end.signal is not None:
        return end.signal not in ("SIGPIPE", "SIGTERM") and end.sender_pid != parent.pid
    return bool(task.last_words) and name not in ANSWERING
