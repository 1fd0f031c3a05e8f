"""An instruction was executed that only the kernel may.

What it means
    The processor refused hlt, in, out, int or their like. musl's malloc executes hlt when it
    finds the heap damaged, and some programs use it as a trap; otherwise the code was not meant
    for a process, or the program ran into bytes that are not code.

How to be sure
    siginfo is SI_KERNEL without an address, and the bytes at the program counter are such an
    instruction.

What to do
    Look at the source at the innermost frame. In malloc or free of musl it is heap corruption.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import place
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule(
    "https://man7.org/linux/man-pages/man2/sigaction.2.html",
    "https://git.musl-libc.org/cgit/musl/tree/arch/x86_64/atomic_arch.h",
)
def privileged_instruction(crash: Crash) -> Findings:
    if crash.kind is not FaultKind.PRIVILEGED_INSTRUCTION:
        return
    yield Finding(
        title=f"a privileged instruction was executed{place(crash.crashed)}",
        cause=crash.words,
        confidence=Confidence.LIKELY,
        next_steps=(
            "look at the source of the innermost frame: hlt is a trap in some libraries (musl's "
            "malloc on a damaged heap)",
            "if that frame makes no sense, the program jumped into the wrong bytes: see who called",
        ),
        evidence=(crash.cited, *crash.frame()),
    )
