"""The stack of a thread was used up.

What it means
    A function called itself, directly or through others, until the stack was full; or one
    function has a very large local array. Threads have smaller stacks than the main thread
    (often 8 MiB, 128 KiB under musl).
How to be sure
    The fault address lies just past the end of the stack, near the stack pointer, and the same
    few functions repeat. Without the address (a handler sent the signal again) only the
    repetition speaks.
What to do
    Find what ends the recursion and why it did not. A larger stack (ulimit -s,
    threading.stack_size) is a test, not a cure, unless the depth is legitimate.
"""

from postmortem import thresholds
from postmortem.diagnose.core.citing import cite_frame, cite_recursion
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.recursion import recursion
from postmortem.diagnose.core.stack_end import is_past_handler_stack, is_sp_lost
from postmortem.diagnose.core.stacks import has_python, place
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.threads import Thread

_OF_THREADS = " or threading.stack_size(512 << 20) before the thread starts"


@rule(
    "https://man7.org/linux/man-pages/man2/setrlimit.2.html",
    "https://docs.python.org/3/library/threading.html#threading.stack_size",
)
def stack_overflow(crash: Crash) -> Findings:
    crashed = crash.crashed
    cycle = recursion(crashed.frames)
    if cycle is not None and cycle.is_python:
        return
    shallow = cycle is not None and cycle.frames < thresholds.OVERFLOW_FRAMES
    if shallow and crash.fault is not None and is_sp_lost(crash.fault):
        # The frame that jumped over the guard page is the innermost, whoever called it.
        cycle = cycle if cycle and crashed.frames[0].function in cycle.functions else None
    certain = crash.kind is FaultKind.STACK_OVERFLOW
    sent_again = (
        crash.kind is FaultKind.RERAISED
        and cycle is not None
        and cycle.frames >= thresholds.OVERFLOW_FRAMES
    )
    if not certain and not sent_again:
        return
    evidence: list[Evidence] = [crash.cited]
    title = "stack overflow"
    if cycle is not None:
        title += f": deep recursion through {short(cycle.first.function)}"
        evidence.append(cite_recursion(crashed, cycle))
    elif crashed.frames:
        first = crashed.frames[0]
        title += place(crashed) if first.function == "??" else f" in {short(first.function)}"
        evidence.append(cite_frame(crashed, 0))
    yield Finding(
        title=title,
        cause=f"{crash.words}. "
        + (
            "The functions call each other without an end, or deeper than the stack allows (a long "
            "list, a deep tree)"
            if cycle is not None
            else _without_recursion(crashed)
        ),
        # Some dozen frames of a recursion do not fill a stack: one large frame may.
        confidence=Confidence.CERTAIN
        if certain and cycle is not None and cycle.frames >= thresholds.OVERFLOW_FRAMES
        else Confidence.LIKELY,
        next_steps=(
            "find what should end the recursion in the functions named, and why it did not",
            "give sigaltstack() a larger block: saved vector registers alone take kilobytes of it"
            if crash.fault is not None and is_past_handler_stack(crash.fault)
            else "as a test: ulimit -s unlimited (main thread)"
            f"{_OF_THREADS if has_python(crash.threads) else ''}; if it still dies, the recursion "
            "has no end",
        ),
        evidence=tuple(evidence),
    )


def _without_recursion(crashed: Thread) -> str:
    few = len(crashed.frames) < thresholds.RECURSION_FRAMES
    if not crashed.frames or (crashed.stopped is not None and few):
        return (
            "The stack could not be walked far enough to tell a recursion without an end from a "
            "local array that is larger than the rest of the stack"
        )
    return (
        "No recursion fills the stack as far as the frames show: a local array or alloca() larger "
        "than the rest of the stack can do it"
    )
