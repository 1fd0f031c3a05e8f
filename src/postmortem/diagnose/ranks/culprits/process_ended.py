"""A shell says which signal ended the program that it ran; or Ray that it ended its workers.

What it means
    There is one process, and its shell saw how it ended; or Ray's memory monitor ended workers.
    They wrote no error of their own: a signal leaves no time. SIGKILL mostly is the kernel's OOM
    killer.
How to be sure
    A core file shows where it crashed; the kernel's log names the pid that it killed.
What to do
    SIGKILL: look at the kernel's log and the memory limit. Else: look for a core file, or run
    it again with PYTHONFAULTHANDLER=1.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import ProcessEnded
from postmortem.diagnose.ranks.culprits.rank_crashed import LIMITS
from postmortem.diagnose.ranks.culprits.rank_exited_silently import EXITS, just_above
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.exits import RUN
from postmortem.knowledge.lookup import ending_signal, lines_of

_KEPT = "read the last lines of its output (postmortem run --keep-output keeps them)"
_LAST_LINES = "read the last lines of its output: it wrote no error that is known"


@rule("https://man7.org/linux/man-pages/man7/signal.7.html")
def process_ended(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, ProcessEnded):
        return
    end, memory = blame.cause.end, blame.cause.memory
    steps: tuple[str, ...] = (
        "look for a core file of that process: postmortem core DIR",
        "of a Python program, PYTHONFAULTHANDLER=1 writes its stack before it dies",
    )
    means = "What it wrote last may be why." if end.above else "It wrote no error of its own."
    if end.signal is None:  # no core, and no stack of faulthandler
        steps = (_KEPT if end.launcher == RUN else _LAST_LINES, EXITS)
        means = "What it left has no error message." if end.launcher == RUN else means
    if end.launcher == "raylet":
        means = (
            "Ray ends the workers that were started last once the memory of their node is used up "
            "to its own limit (RAY_memory_usage_threshold), before the kernel would."
        )
        steps = (
            f"ray logs raylet.out -ip {end.host or 'IP'}  names the workers and what they used",
            "fewer of them at a time (num_cpus, memory= of a task or an actor), or a larger node",
        )
    elif end.evicted:
        means = (
            "Its node ran short of it, and the kubelet evicts first the pods that use more than "
            "they asked for."
        )
        steps = (
            "ask for what it uses (resources.requests), or use less: what it writes outside of "
            "volumes counts as ephemeral-storage",
            "kubectl get events --field-selector reason=Evicted  tells whom else it hit",
        )
    elif end.unplaced:
        means = "Kubernetes finds no node for it, so that nothing of it has run."
        if end.refused:
            means = (
                "Its node did not take it, so that nothing of it has run: what it asks for is gone."
            )
        steps = (
            f"kubectl describe pod {end.host or 'POD'}; kubectl describe nodes  shows what each "
            "has left, and its taints",
            "ask for what a node can give, or wait for one; a job that needs all of its pods at "
            "once wants a gang scheduler (Kueue, Volcano)",
        )
    elif end.memory and end.launcher in LIMITS:
        said, steps = LIMITS[end.launcher]
        means += said
    elif end.signal == "SIGKILL":  # leaves neither
        steps = (
            "dmesg -T | grep -i -E 'killed process|out of memory': usually it is the kernel's "
            "OOM killer",
            "under Slurm: sacct -o JobID,State,MaxRSS,ReqMem -j JOB; ask for more memory, or "
            "use less",
        )
    elif sender := ending_signal(end.signal):  # such a signal leaves no core
        means = f"{end.signal} usually means: {sender['from']}."
        steps = lines_of(sender["next"])
    why = ": its memory was used up" if memory else ""
    yield Finding(
        title=end.words + why,
        verdict=clip(end.words + just_above(end.above), 240) if end.above else None,
        cause=means + (" Another line reports a kill for memory." if memory else ""),
        confidence=Confidence.LIKELY,
        next_steps=steps,
        evidence=cite(blame, end.above),
    )
