"""The kernel killed a rank because memory was short.

What it means
    Main memory ran out: of the host, or of what its container or job may use. The kernel
    kills the largest process there with SIGKILL, which leaves no core and no traceback.
How to be sure
    Its log names the pid of the rank (or of a DataLoader worker of it), and the rank's
    launcher says that SIGKILL ended it.
What to do
    Find what grows: DataLoader workers copy what they touch, pinned memory and /dev/shm count
    too. Then use less, or ask for more.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.kernel.words import decided, decided_by, meaning
from postmortem.diagnose.ranks.kernel_matches import MatchKey
from postmortem.diagnose.ranks.phrases import ranks_words
from postmortem.diagnose.rule import Findings, rule
from postmortem.facts.kernel_log import KernelKind


@rule("https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files")
def killed_for_memory(blame: Attribution) -> Findings:
    tie = decided_by(blame, KernelKind.OOM_KILL)
    if tie is None:
        return
    event = tie.event
    who = ranks_words(blame.first)
    verb = "was" if len(blame.first) == 1 else "were"
    child = tie.by is MatchKey.CHILD
    title = f"{who} {verb} killed by the kernel for memory"
    if child:
        title = f"{who} lost a DataLoader worker that the kernel killed for memory"
    there = f" on {event.host}" if event.host else ""
    what = f"{event.words[0].upper()}{event.words[1:]}"
    cause = f"{what}; it is pid {event.pid}{there}. {meaning(tie)}"
    steps = [
        "the table of tasks above the kernel's line lists who held what (rss is in pages of 4 KiB)",
        "fewer or smaller DataLoader workers, less pinned memory and prefetching; load with mmap",
    ]
    if event.limit:
        steps.append("raise the limit: sbatch --mem, or resources.limits.memory of the pod")
    else:
        steps.append("add up all ranks of the host, and files in /dev/shm: df -h /dev/shm")
    yield decided(blame, tie, title, cause, steps)
