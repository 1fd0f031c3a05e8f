"""A virtual function was called on an object that is no longer, or not yet, whole.

What it means
    While an object is destroyed (or built) its most derived functions are gone, and a call of
    one that its base leaves open ends the process. Usual causes: a thread still uses an object
    that another thread or the end of the program destroys, or two libraries disagree about the
    layout of a class.
How to be sure
    __cxa_pure_virtual is on the stack; its caller made the call. Frames of exit below it mean
    that global objects were being destroyed.
What to do
    Stop and join the threads that use an object before it goes; at exit, end them before main
    returns.
"""

from postmortem.diagnose.core.citing import cite_frame
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import exit_index, site
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule


@rule("https://github.com/pytorch/pytorch/issues/84756")
def pure_virtual_call(crash: Crash) -> Findings:
    if crash.kind is not FaultKind.ABORT:
        return
    crashed = crash.crashed
    index = crashed.index_of(r"^__cxa_(pure|deleted)_virtual\b", within=16)
    if index is None:
        return
    outer = site(crashed)
    evidence = (cite_frame(crashed, index), *crash.frame(outer))
    by = crash.named(" by", outer)
    at_exit = exit_index(crashed) is not None
    if "deleted" in crashed.frames[index].function:
        yield _deleted(by, evidence)
        return
    yield Finding(
        title=f"pure virtual function called{by}{' while exiting' if at_exit else ''}",
        cause="a function was called on an object that was being destroyed or built, or is gone"
        + (": the program was ending and destroyed its global objects" if at_exit else ""),
        confidence=Confidence.CERTAIN,
        next_steps=(
            "find the class in the caller's frame, and who destroys the object while it is used",
            "stop and join its threads before the object goes; at exit, before main returns",
        ),
        evidence=evidence,
    )


def _deleted(by: str, evidence: tuple[Evidence, ...]) -> Finding:
    """Return what a call through the slot of a function that is declared `= delete` means."""
    return Finding(
        title=f"deleted virtual function called{by}",
        cause="the slot of a virtual function that is declared `= delete` was called: no code can "
        "ask for that, so caller and object disagree about the class, or its table was overwritten",
        confidence=Confidence.LIKELY,
        next_steps=("build everything that includes the header of that class anew",),
        evidence=evidence,
    )
