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
from postmortem.knowledge.lookup import outside_end


@rule("https://slurm.schedmd.com/job_exit_code.html")
def stopped_from_outside(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, StoppedFromOutside):
        return
    outside = "the job was stopped from outside"
    if cause.why is Stop.TASK:
        outside = "its scheduler ended the job"
    known = outside_end("job", cause.why)
    why = f": {known.means}" if known is not None else ", by a signal or its scheduler"
    then = f"; then {clip(cause.then, 160)}" if cause.then else ""
    yield Finding(
        title=f"{outside}{why}",
        verdict=f"{outside}{why}{then}" if then else None,
        cause=f"Its scheduler says so{then}."
        if cause.why in (Stop.MEMORY, Stop.TASK) or (then and cause.why is None)
        else f"Nothing failed before the job was told to stop{then}.",
        confidence=Confidence.LIKELY,
        next_steps=known.steps if known is not None else _steps(cause),
        evidence=cite(blame),
    )


def _steps(cause: StoppedFromOutside) -> tuple[str, ...]:
    if cause.scheduled:
        sacct = "sacct -o JobID,State,ExitCode,End -j JOB  tells a time limit from a cancellation"
        return (sacct,)
    return (
        "find who sent the signal: Ctrl-C, a terminal that closed (nohup or tmux outlive it), a "
        "supervisor, a scheduler",
        "did its last lines stand still before? then it hung: next time, postmortem hang PID while "
        "it runs",
    )
