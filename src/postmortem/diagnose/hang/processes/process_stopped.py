"""A process is stopped, and waits for a signal to go on.

What it means
    The kernel shows state T: somebody sent SIGSTOP or SIGTSTP (Ctrl-Z in its terminal, a
    scheduler that suspends the job), or it read from a terminal in the background (SIGTTIN).
    State t is a debugger that holds it. It does nothing until it is continued.
How to be sure
    The state is what the kernel says; postmortem was not the one who stopped it.
What to do
    kill -CONT PID lets it go on; scontrol resume JOB where SLURM suspended the job.
"""

from postmortem.diagnose.hang.pace import slow_ranks
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.live import LiveJob, LiveProcess, Motion


@rule("https://man7.org/linux/man-pages/man7/signal.7.html")
def process_stopped(job: LiveJob) -> Findings:
    slow = {one.label for one in slow_ranks(job.paces)}
    for one in job.processes:
        if one.state in ("T", "t") and one.label not in slow:
            motion = job.motion(one.label)
            yield _finding(one, motion)


def _finding(one: LiveProcess, motion: Motion | None) -> Finding:
    by = f" by its tracer, pid {one.tracer}" if one.state == "t" and one.tracer else ""
    # All other labels have the pid in them.
    who = f"{one.label} (pid {one.pid})" if one.label == f"rank {one.rank}" else one.label
    way = f"end the debugger, pid {one.tracer}" if by else f"kill -CONT {one.pid}"
    does, since = "", ""
    if motion is not None and (motion.moved or not motion.is_idle):  # whoever reads it wakes it
        does, since = " again and again", "; it went on in between"
    elif motion is not None:
        does, since = ", and does nothing", ", and nothing has continued it"
    return Finding(
        title=f"{who} is stopped{by or ' by a signal'}{does}",
        cause=f"{who} is held{by}"
        if by
        else f"{who} is in state {one.state}: SIGSTOP, SIGTSTP (Ctrl-Z) or SIGTTIN stopped it"
        + since,
        confidence=Confidence.CERTAIN,
        next_steps=(way, "suspended by SLURM? scontrol show job, scontrol resume JOB"),
        about=Subject(pid=one.pid, rank=one.rank),
        evidence=(Evidence(f"/proc/{one.pid}/stat", f"state {one.state}"),),
    )
