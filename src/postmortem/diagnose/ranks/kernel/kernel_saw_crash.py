"""The kernel noted where a rank crashed, or why it was ended.

What it means
    The process did in native code what it may not, and the kernel wrote down at which address
    and in which library: as much as the first line of a core, where no core was kept.
How to be sure
    The line names the pid of the rank, and its launcher gives the signal that goes with it.
What to do
    Look the offset up in the library, and get a core for the rest.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.kernel import words
from postmortem.diagnose.ranks.phrases import at_frame, ranks_words
from postmortem.diagnose.rule import Findings, rule
from postmortem.facts.kernel_log import KernelKind
from postmortem.text import shell_word


@rule("https://docs.kernel.org/admin-guide/sysctl/debug.html")
def kernel_saw_crash(blame: Attribution) -> Findings:
    tie = words.decided_by(blame, KernelKind.CRASH, KernelKind.MACHINE)
    if tie is None or tie.event.signal is None:
        return
    event = tie.event
    party = blame.first[0]
    who = ranks_words(blame.first)
    signal = (party.exit.signal if party.exit is not None else None) or event.signal
    place = f" in {event.place}" if event.place else ""
    steps = ["postmortem core explains its core file; none? ulimit -c unlimited, and run again"]
    if event.place:
        module, _, offset = event.place.rpartition("+")
        if module:
            steps.insert(0, f"addr2line -Cfie {shell_word(f'PATH/{module}')} {shell_word(offset)}")
    did = f"{who} {event.words}{at_frame(party.failure)}. "
    if event.kind is KernelKind.MACHINE:
        did, steps = "", []
    title = f"{who} died of {signal}{place}: {event.brief}"
    yield words.decided(blame, tie, title, f"{did}{words.meaning(tie)}", steps)
