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
from postmortem.facts.live import LiveJob, LiveProcess


@rule("https://man7.org/linux/man-pages/man7/signal.7.html")
def process_stopped(job: LiveJob) -> Findings:
    slow = {one.label for one in slow_ranks(job.paces)}
    for one in job.processes:
        if one.state in ("T", "t") and one.label not in slow:
            motion = job.motion(one.label)
            yield _finding(one, goes_on=motion is not None and motion.goes_on)


def _finding(one: LiveProcess, *, goes_on: bool) -> Finding:
    by = f" by its tracer, pid {one.tracer}" if one.state == "t" and one.tracer else ""
    who = one.label if one.label.startswith("pid") else f"{one.label} (pid {one.pid})"
    way = f"end the debugger, pid {one.tracer}" if by else f"kill -CONT {one.pid}"
    since = "it; it went on in between" if goes_on else "it, and nothing has continued it"
    return Finding(
        title=f"{who} is stopped{by or ' by a signal'}"
        + (" again and again" if goes_on else ", and does nothing"),
        cause=f"{who} is held{by}"
        if by
        else f"{who} is in state {one.state}: SIGSTOP, SIGTSTP (Ctrl-Z) or SIGTTIN stopped {since}",
        confidence=Confidence.CERTAIN,
        next_steps=(way, "suspended by SLURM? scontrol show job, scontrol resume JOB"),
        about=Subject(pid=one.pid, rank=one.rank if one.works_for is None else None),
        evidence=(Evidence(f"/proc/{one.pid}/stat", f"state {one.state}"),),
    )
