"""A check that was compiled into the program failed and stopped it.

What it means
    The program executed an instruction that is there to stop it (ud2, brk, int3): a failed
    assertion of a library, -fsanitize with traps, __builtin_unreachable reached, an abort in
    Rust. The processor is fine.

How to be sure
    The instruction at the program counter is a trap. The message of the check, if any, is the
    last line on standard error.

What to do
    Read the source at that frame: the condition just before the trap is the one that failed.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import place
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule(
    "https://gcc.gnu.org/onlinedocs/gcc/Other-Builtins.html",
    "https://clang.llvm.org/docs/UndefinedBehaviorSanitizer.html",
    yields_to=("node_end",),
)
def compiler_trap(crash: Crash) -> Findings:
    if crash.kind not in (FaultKind.COMPILER_TRAP, FaultKind.BREAKPOINT):
        return
    is_breakpoint = crash.kind is FaultKind.BREAKPOINT
    yield Finding(
        title=f"a check stopped the program with a trap{place(crash.crashed)}",
        cause=crash.words,
        confidence=Confidence.POSSIBLE if is_breakpoint else Confidence.LIKELY,
        next_steps=(
            "read the last lines that the process wrote to standard error: checks print why",
            "read the source at the innermost frame: the condition before the trap failed",
        ),
        evidence=(crash.cited, *crash.frame()),
    )
