"""A launcher says that a process ended badly, and not which rank it was.

What it means
    MPICH's mpiexec gives the process and its host; a shell gives the process; DeepSpeed's
    launcher the code alone, next to the command of its last rank, whoever failed. No rank
    wrote an error.
How to be sure
    The process number appears in the program's own lines, in NCCL's lines (host:pid:tid), or
    in the name of a core file.
What to do
    Print the rank with os.getpid() at the start, and look for a core of that process.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import UnnamedProcessEnded
from postmortem.diagnose.ranks.culprits.rank_exited_silently import (
    READ_CITED,
    above_step,
    just_above,
    outputs_step,
)
from postmortem.diagnose.ranks.phrases import cite, ranks_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://man7.org/linux/man-pages/man7/signal.7.html")
def unnamed_process_ended(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, UnnamedProcessEnded):
        return
    end = blame.cause.end
    steps = [
        "look for a core file of that process: postmortem core DIR",
        "PYTHONFAULTHANDLER=1 makes the rank write its Python stack before it dies",
    ]
    if end.signal is None:  # no core, and no stack of faulthandler
        steps = [READ_CITED if end.above else above_step(end), outputs_step(end)]
    if end.signal == "SIGKILL":  # leaves neither
        steps = [
            "dmesg -T | grep -i -E 'killed process|out of memory'  on each host: usually it is the "
            "kernel's OOM killer",
            "in a container: grep oom_kill /sys/fs/cgroup/memory.events; under Slurm: sacct -o "
            "JobID,State,MaxRSS -j JOB",
        ]
    among = f" It is one of {ranks_words(blame.candidates)}." if blame.candidates else ""
    told = end.launcher == "Slurm" or (end.launcher == "kubernetes" and end.host)  # a job, a pod
    which = "" if told else "; which rank that was is not known"
    yield Finding(
        title=end.words + which,
        verdict=clip(f"undecided: {end.words}{just_above(end.above)}", 240) if end.above else None,
        cause=f"No line that names a rank is an error.{among}",
        confidence=Confidence.POSSIBLE,
        next_steps=tuple(steps),
        evidence=cite(blame, end.above),
    )
