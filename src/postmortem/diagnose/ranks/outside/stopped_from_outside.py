"""Somebody stopped the job: a scheduler, a signal, Ctrl-C.

What it means
    Nothing failed before the stop. A time limit, a preemption, or a person ended it.
How to be sure
    The launcher or the scheduler says so, and no rank has an error before.
What to do
    Ask the scheduler why; if nobody meant to, find who sent the signal.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import Stop, StoppedFromOutside
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule

_WHY = {
    Stop.TIME: "its time limit was reached",
    Stop.PREEMPTED: "it was preempted",
    Stop.MEMORY: "it was over its memory limit",
    Stop.NODE: "one of its nodes failed",
    Stop.REQUEUED: "it was put back into the queue",
}

_HUNG = "was it hung before? while it runs, postmortem hang PID shows where a rank stands"


@rule("https://slurm.schedmd.com/job_exit_code.html")
def stopped_from_outside(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, StoppedFromOutside):
        return
    outside = "the job was stopped from outside"
    yield Finding(
        title=f"{outside}: {_WHY[cause.why]}"
        if cause.why is not None
        else f"{outside}, by a signal or its scheduler",
        cause="Its scheduler says so."
        if cause.why is Stop.MEMORY
        else "Nothing failed before the job was told to stop.",
        confidence=Confidence.LIKELY,
        next_steps=(_step(cause),) if cause.why is Stop.MEMORY else (_step(cause), _HUNG),
        evidence=cite(blame),
    )


def _step(cause: StoppedFromOutside) -> str:
    if cause.why is Stop.TIME:
        return (
            "ask for more time, or save checkpoints within it; its last lines tell how far it came"
        )
    if cause.why is Stop.MEMORY:
        return (
            "ask for more memory than the limit that it names, or use less: fewer workers, batches"
        )
    if cause.why is Stop.REQUEUED:
        return "it starts again by itself: look into the log of that run"
    if cause.scheduled:
        return "sacct -o JobID,State,ExitCode,End -j JOB  tells a time limit from a cancellation"
    return (
        "find who sent the signal: Ctrl-C, a terminal that closed (nohup or tmux outlive it), a "
        "supervisor, a scheduler"
    )
