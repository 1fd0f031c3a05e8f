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
from postmortem.diagnose.ranks.culprits.rank_crashed import from_outside
from postmortem.diagnose.ranks.culprits.rank_exited_silently import EXITS, just_above
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.exits import RUN
from postmortem.knowledge.lookup import outside_end

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
    if outside := from_outside(end):
        means, steps = outside.means, outside.steps
    elif end.signal == "SIGKILL":  # leaves neither
        steps = (
            "dmesg -T | grep -i -E 'killed process|out of memory': usually it is the kernel's "
            "OOM killer",
            "under Slurm: sacct -o JobID,State,MaxRSS,ReqMem -j JOB; ask for more memory, or "
            "use less",
        )
    elif sender := outside_end("signal", end.signal):  # such a signal leaves no core
        means, steps = f"{end.signal} usually means: {sender.means}.", sender.steps
    why = ": its memory was used up" if memory else ""
    yield Finding(
        title=end.words + why,
        verdict=clip(end.words + just_above(end.above), 240) if end.above else None,
        cause=means + (" Another line reports a kill for memory." if memory else ""),
        confidence=Confidence.LIKELY,
        next_steps=steps,
        evidence=cite(blame, end.above),
    )
