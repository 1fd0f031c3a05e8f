"""A process that a rank had started was killed for memory.

What it means
    The exception only says that a process of its own is gone: a worker of a DataLoader, of a
    pool, of a map over a data set. A scheduler or the kernel tells of a kill for memory beside it.
How to be sure
    Slurm's sacct has the state OUT_OF_MEMORY; dmesg names the pid of the process that was killed.
What to do
    Workers copy what they touch: fewer of them, or more memory for the job.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import ChildKilled
from postmortem.diagnose.ranks.phrases import cite, ranks_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://slurm.schedmd.com/cgroups.html")
def child_killed_for_memory(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, ChildKilled) or not blame.first:
        return
    who = ranks_words(blame.first)
    yield Finding(
        lead=who,
        title=f"{who} lost a process that was killed for memory",
        cause=f"{clip(blame.cause.said, 160)} What was raised only says that a process is gone: "
        f"{clip(blame.first[0].why, 160)}",
        confidence=Confidence.LIKELY,
        next_steps=(
            "fewer processes (num_proc, num_workers), or more memory: sbatch --mem",
            "sacct -j JOB -o JobID,State,MaxRSS,ReqMem  shows how much was used",
        ),
        evidence=cite(blame),
    )
