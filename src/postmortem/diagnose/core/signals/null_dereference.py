"""A null pointer was dereferenced.

What it means
    The program read or wrote at an address so close to 0 (or, wrapping around, just below 0)
    that the pointer it started from was NULL: an object that was never made, an allocation or
    look-up that failed unnoticed, an argument that should not have been None.
How to be sure
    The kernel gives the address. 0 is the pointer itself; a small offset is a member or an
    element behind it. Which caller passed the null pointer is in the frames above the fault.
What to do
    Read the stack from the fault outwards to the first function of your own, and look at what
    it passed. From Python, the innermost Python line names the call.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.pointers import (
    POINTER_RULES,
    is_of_thread_pointer,
    number_as_pointer,
    pointer_value,
    small_pointer,
)
from postmortem.diagnose.core.stacks import is_stray, own_caller, place
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule

_STRAYED = (
    "; or none did: the stack does not lead back from here, as after a jump through a damaged "
    "pointer or return address"
)


@rule(
    "https://man7.org/linux/man-pages/man2/sigaction.2.html",
    yields_to=(*POINTER_RULES, "gil_not_held"),
    yields_as=Role.CONTRIBUTING,
)
def null_dereference(crash: Crash) -> Findings:
    signal = crash.signal
    if crash.kind is not FaultKind.NULL_DEREFERENCE or signal.address is None:
        return
    crashed = crash.crashed
    number = number_as_pointer(signal, crash.fault)
    small = small_pointer(signal, crash.fault)
    null = "null " if number is None and small is None else ""
    steps = [f"check where {own_caller(crashed)} gets the {null}pointer from"]
    if not any(frame.line for frame in crashed.frames[:8]):
        steps.append(
            "build the module of that function with -g and run again: then its lines are told"
        )
    # An offset of pages is a large array or object; it can also be a small integer that was taken
    # for a pointer.
    # Certain only where the pointer itself is seen to be null, or the address is 0.
    is_null = signal.address < 4096 and pointer_value(crash.fault) == 0
    is_null = is_null or (signal.address == 0 and signal.then is None)
    strayed = is_stray(crashed)
    is_null = is_null and bool(null) and not strayed
    what = "null pointer dereference"
    if is_of_thread_pointer(crash.fault):
        what, is_null = "a thread-local variable of a thread whose thread pointer is null", False
    elif number is not None:
        what = f"the number {number} was used as a pointer"
    elif small is not None:
        what = f"a null pointer's member, or the number {small} used as a pointer"
    yield Finding(
        title=f"{what} (address {signal.address:#x}){place(crashed)}",
        cause=f"{crash.words}. The instruction only used the pointer: this function, or one that "
        "called it, got it wrong" + (_STRAYED if strayed else ""),
        confidence=Confidence.CERTAIN if is_null and not signal.inferred else Confidence.LIKELY,
        next_steps=tuple(steps),
        evidence=(crash.cited, *crash.way()),
    )
