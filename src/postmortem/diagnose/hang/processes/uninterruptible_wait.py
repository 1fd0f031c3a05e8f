"""A thread waits in the kernel and cannot be interrupted.

What it means
    State D: the main thread is in a call that no signal ends, not even SIGKILL. Nearly always a
    file system whose server does not answer (NFS, Lustre, GPFS), a disk, or a driver.
How to be sure
    One sample may have met an ordinary read. When it did not run between two samples, it
    stands; the kernel function that it sleeps in (wchan) names the file system or driver.
What to do
    df and mount tell which file system does not answer; dmesg has the kernel's own words
    ("blocked for more than 120 seconds"). When the server is back the process goes on.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.live import LiveJob, LiveProcess, Task


@rule("https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html")
def uninterruptible_wait(job: LiveJob) -> Findings:
    for one in job.processes:
        task = one.task(one.pid)
        if task is not None and task.state == "D":
            motion = job.motion(one.label)
            if motion is None or motion.is_still:
                yield _finding(one, task, sure=motion is not None)


def _finding(one: LiveProcess, task: Task, *, sure: bool) -> Finding:
    call = f": {task.call.words}" if task.call is not None else ""
    channel = f", in the kernel's {task.wait_channel}" if task.wait_channel else ""
    stack = " < ".join(task.kernel_stack[:6])
    return Finding(
        title=f"{one.label} waits in the kernel and cannot be interrupted{call}",
        cause=f"pid {one.pid} is in state D{channel}{call}; a file system, disk or driver does not "
        "answer" + ("" if sure else "; one sample may also have met an ordinary read"),
        confidence=Confidence.LIKELY if sure else Confidence.POSSIBLE,
        next_steps=(
            "dmesg -T | tail: hung tasks, NFS or Lustre servers that do not answer",
            f"sudo cat /proc/{one.pid}/stack: which file system or driver is it in?",
        ),
        evidence=(
            Evidence(f"/proc/{one.pid}/stat", f"state D{channel}"),
            *((Evidence(f"/proc/{one.pid}/stack", clip(stack, 200)),) if stack else ()),
        ),
    )
