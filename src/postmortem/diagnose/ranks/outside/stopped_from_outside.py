"""Somebody stopped the job: a scheduler, a signal, Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.blame import Blame, How
from postmortem.diagnose.ranks.telling import cite
from postmortem.diagnose.rule import Finding, rule
from postmortem.report.model import Confidence, Role

_WHY = (
    ("DUE TO TIME LIMIT", "the job was stopped from outside: its time was over"),
    (
        "DUE TO PREEMPTION",
        "the job was stopped from outside: another one was preferred",
    ),
    ("TERM_RUNLIMIT", "the job was stopped from outside: its time was over"),
    ("TERM_MEMLIMIT", "the job was stopped from outside: it was over its memory limit"),
    ("killed: walltime", "the job was stopped from outside: its time was over"),
    ("killed: mem", "the job was stopped from outside: it was over its memory limit"),
    ("DUE TO NODE", "the job was stopped from outside: one of its nodes failed"),
)
"""What Slurm, LSF and PBS write, and what it means."""


@rule(role=Role.ROOT, references=("https://slurm.schedmd.com/job_exit_code.html",))
def stopped_from_outside(blame: Blame) -> Iterator[Finding]:
    """Somebody stopped the job: a scheduler, a signal, Ctrl-C.

    What it means
        Nothing failed before the stop. A time limit, a preemption, or a person ended it.
    How to be sure
        The launcher or the scheduler says so, and no rank has an error before.
    What to do
        Ask the scheduler why; if nobody meant to, find who sent the signal.
    """
    if blame.how is not How.STOPPED:
        return
    said = [words for _, text in blame.evidence for mark, words in _WHY if mark in text]
    yield Finding(
        title=said[0] if said else "the job was stopped from outside, by a signal or its scheduler",
        cause=f"nothing failed before the job was told to stop: {clip(blame.detail, 300)}",
        confidence=Confidence.LIKELY,
        next_steps=(
            "sacct -o JobID,State,ExitCode,End -j JOB  tells a time limit from a cancellation",
            "was it hung before? give the stacks of a hanging rank: py-spy dump --pid PID",
        ),
        evidence=cite(blame),
    )
