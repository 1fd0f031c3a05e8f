"""A bus error whose page belongs to nothing that is known.

What it means
    The memory was mapped, but its page could not be provided. The usual reasons: a mapped file
    that became shorter, a full tmpfs or /dev/shm, no huge pages left, a device (a GPU's
    window) that went away, storage that gave an error.

How to be sure
    The core does not say which file was mapped there. The function at the fault often does:
    a copy out of a file, a write into shared memory, a store to a device.

What to do
    See what the innermost function was working on; check the candidates one by one.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import place
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://man7.org/linux/man-pages/man2/mmap.2.html")
def bus_error(crash: Crash) -> Findings:
    if crash.kind is not FaultKind.BUS_OTHER:
        return
    evidence = [crash.cited, *crash.frame()]
    yield Finding(
        title=f"a bus error{place(crash.crashed)}: a page of memory could not be provided",
        cause=f"{crash.words}. Candidates: a mapped file that became "
        "shorter, a full /dev/shm, huge pages that ran out, a device that went away; the evidence "
        "does not decide between them",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            "see in the stack what the innermost function was working on: a mapped file, shared "
            "memory, a device?",
            "df -h /dev/shm; grep Huge /proc/meminfo; dmesg -T on that host at this time",
        ),
        evidence=tuple(evidence),
    )
