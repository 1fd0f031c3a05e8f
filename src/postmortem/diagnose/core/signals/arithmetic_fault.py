"""An integer division failed, or a floating-point trap was on.

What it means
    Native code divided an integer by zero, or the most negative integer by -1: often a size,
    stride, group or batch count that is 0 (an empty tensor, a rank without data).
    Floating-point codes come only if something switched traps on (feenableexcept).
How to be sure
    The signal's code says which. The instruction at the innermost frame is the division.
What to do
    Look at which sizes reach that function; guard against empty inputs.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import place
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule

_TRAPPED = {
    "FPE_FLTDIV": "trapped floating-point division by zero",
    "FPE_FLTOVF": "trapped floating-point overflow",
    "FPE_FLTUND": "trapped floating-point underflow",
    "FPE_FLTRES": "trapped inexact floating-point result",
    "FPE_FLTINV": "trapped invalid floating-point operation (its result would be NaN)",
}


def _integer(divisor: int | None) -> str:
    """Return what an integer division failed by: x86 has one code for all its reasons."""
    if divisor is None:
        return "integer division by zero or overflow"
    if divisor == 0:
        return "integer division by zero"
    if divisor == -1:
        return "integer overflow: the smallest integer was divided by -1"
    return f"integer overflow in a division by {divisor}"


@rule(
    "https://man7.org/linux/man-pages/man2/sigaction.2.html",
    "https://man7.org/linux/man-pages/man3/fenv.3.html",
)
def arithmetic_fault(crash: Crash) -> Findings:
    signal = crash.signal
    if crash.kind is not FaultKind.ARITHMETIC:
        return
    is_integer = signal.code in ("FPE_INTDIV", "FPE_INTOVF")
    divisor = (
        crash.fault.instruction.divisor
        if crash.fault is not None and crash.fault.instruction
        else None
    )
    what = _integer(divisor) if is_integer else _TRAPPED.get(signal.code or "", "arithmetic trap")
    yield Finding(
        title=f"{what}{place(crash.crashed)}",
        cause=crash.words,
        confidence=Confidence.CERTAIN if is_integer else Confidence.LIKELY,
        next_steps=(
            "look at the sizes, strides and counts that reach the innermost function: one is 0",
            "check whether this rank had an empty batch, shard or tensor",
        )
        if is_integer and divisor in (0, None)
        else (
            "look at the numbers that reach the innermost function: the dividend does not fit, as "
            "the smallest integer divided by -1, which has no positive counterpart",
        )
        if is_integer
        else (
            "look for feenableexcept, -ffpe-trap or a library that switches floating-point traps "
            "on, and switch them off or find the operation named here",
        ),
        evidence=(crash.cited, *crash.frame()),
    )
