"""Somebody stopped the job: a scheduler, a signal, Ctrl-C.

What it means
    Nothing failed before the stop. A time limit, a preemption, or a person ended it.
How to be sure
    The launcher or the scheduler says so, and no rank has an error before.
What to do
    Ask the scheduler why; if nobody meant to, find who sent the signal.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import StoppedFromOutside
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.exits import Stop

_WHY = {
    Stop.TIME: "its time limit was reached",
    Stop.PREEMPTED: "it was preempted",
    Stop.MEMORY: "it was over its memory limit",
    Stop.NODE: "one of its nodes failed",
    Stop.REQUEUED: "it was put back into the queue",
    Stop.TASK: "one of its tasks failed",
    Stop.LIMIT: "it used more than it may",
}


@rule("https://slurm.schedmd.com/job_exit_code.html")
def stopped_from_outside(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, StoppedFromOutside):
        return
    outside = "the job was stopped from outside"
    if cause.why is Stop.TASK:
        outside = "its scheduler ended the job"
    why = f": {_WHY[cause.why]}" if cause.why is not None else ", by a signal or its scheduler"
    then = f"; then {clip(cause.then, 160)}" if cause.then else ""
    yield Finding(
        title=f"{outside}{why}",
        verdict=f"{outside}{why}{then}" if then else None,
        cause=f"Its scheduler says so{then}."
        if cause.why in (Stop.MEMORY, Stop.TASK) or (then and cause.why is None)
        else f"Nothing failed before the job was told to stop{then}.",
        confidence=Confidence.LIKELY,
        next_steps=_steps(cause),
        evidence=cite(blame),
    )


_HUNG = (
    "did its last lines stand still before? then it hung: next time, postmortem hang PID "
    "while it runs"
)
_BY_REASON = {
    Stop.TIME: (
        "ask for more time, or save checkpoints within it; its last lines tell how far it came",
        _HUNG,
    ),
    Stop.MEMORY: (
        "ask for more memory than it used at most, which the scheduler's summary has (sacct, "
        "bjobs -l, qstat -fx)",
        "or use less: fewer loader workers, smaller batches, files that are mapped",
    ),
    Stop.PREEMPTED: (
        "start it again from its last checkpoint; sbatch --requeue does so by itself",
    ),
    Stop.NODE: ("start it again without that node: sbatch --exclude=NODE",),
    Stop.REQUEUED: ("it starts again by itself: look into the log of that run",),
    Stop.TASK: (
        "look for the task that is not among those which Slurm names as terminated: sacct -j JOB "
        "-o JobID,State,ExitCode, and what that task wrote",
    ),
    Stop.LIMIT: (
        "ask for as much as the scheduler says that it used, or use less: of processors, set "
        "OMP_NUM_THREADS and the number of loader workers",
    ),
}


def _steps(cause: StoppedFromOutside) -> tuple[str, ...]:
    if cause.why is not None:
        return _BY_REASON[cause.why]
    if cause.scheduled:
        sacct = "sacct -o JobID,State,ExitCode,End -j JOB  tells a time limit from a cancellation"
        return (sacct,)
    return (
        "find who sent the signal: Ctrl-C, a terminal that closed (nohup or tmux outlive it), a "
        "supervisor, a scheduler",
        _HUNG,
    )
