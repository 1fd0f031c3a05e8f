"""A host broke down under all of its ranks.

What it means
    Its kernel reports a machine check, memory that cannot be corrected, a panic or a processor
    that stands still, or a rank of it waits in the kernel. The ranks there stop without a word.
How to be sure
    The ranks of that host are the silent ones, and all others lost their connections.
What to do
    Take the host out, and start again without it.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.kernel.words import decided, meaning
from postmortem.diagnose.ranks.kernel_matches import MatchKey
from postmortem.diagnose.ranks.phrases import ranks_words
from postmortem.diagnose.rule import Findings, rule
from postmortem.facts.kernel_log import KernelKind


@rule("https://docs.kernel.org/admin-guide/RAS/main.html")
def host_failed(blame: Attribution) -> Findings:
    tie = blame.tie
    if tie is None:
        return
    if not blame.first:
        name = f"host {tie.event.host}" if tie.event.host else "the host"
        yield decided(blame, tie, f"the logs fall silent, then {name} starts anew", meaning(tie))
        return
    event = tie.event
    broken = event.kind in (KernelKind.MACHINE, KernelKind.BLOCKED)
    if event.signal is not None or not broken:
        return
    who = ranks_words(blame.first)
    name = f"host {event.host}" if event.host else "the host"
    title = f"{who} failed with {name}: {event.words}"
    stack = ""
    if tie.by is MatchKey.PID:
        title = f"{who} is stuck in the kernel of {event.host or 'its host'}"
        stack = f" It waits in {', called by '.join(event.stack[:4])}." if event.stack else ""
    yield decided(blame, tie, title, f"{meaning(tie)}{stack}")
