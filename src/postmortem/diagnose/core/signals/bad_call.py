"""The program jumped to where no code is.

What it means
    The program counter itself is the bad address: a function pointer that is NULL or garbage,
    a virtual call on an object that was freed, a callback whose library was unloaded, or a
    return address on the stack that was overwritten.
How to be sure
    The fault address equals the program counter. Frame 1 made the call, if its frame is still
    readable; a stack that makes no sense from frame 1 on points to an overwritten return
    address.
What to do
    Look at the call in frame 1: which pointer, and who sets it. In ctypes, keep a reference to
    every CFUNCTYPE callback as long as native code may call it.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.fault_words import bad_target
from postmortem.diagnose.core.pointers import is_executable
from postmortem.diagnose.core.stacks import is_lone_word
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.facts.crash import Fault
from postmortem.facts.memory import Modules


@rule(
    "https://man7.org/linux/man-pages/man3/dlopen.3.html",
    yields_to=("damaged_object",),
    yields_as=Role.CONTRIBUTING,
)
def bad_call(crash: Crash, modules: Modules) -> Findings:
    if crash.kind is not FaultKind.BAD_CALL:
        return
    pc = bad_target(crash.signal, crash.fault)
    refused = crash.fault is not None and pc != crash.fault.pc.value
    instruction = crash.fault.instruction if crash.fault is not None else None
    came_back = instruction is not None and instruction.transfer == "return"
    is_return = refused and came_back
    is_null = pc == 0
    crashed = crash.crashed
    evidence = [crash.cited]
    by = ""
    frame = 0 if refused else 1  # the processor refused the jump: the caller is still innermost
    if len(crashed.frames) > frame and not is_lone_word(crashed, frame):
        evidence += crash.frame(frame)
        if crashed.frames[frame].function != "??" and (is_return or not came_back):
            word = "at the end of" if is_return else "called from"
            by = f", {word} {short(crashed.frames[frame].function)}"
    gone = not is_null and _was_in_gap(modules, pc)
    is_null_call = is_null and not came_back
    what = "a null function pointer" if is_null_call else f"an address without code ({pc:#x})"
    steps = [
        "build with -fsanitize=address or -fstack-protector-all: they stop at the write"
        if came_back
        else f"look at the call in frame {frame} of the crashed thread: which pointer, and who "
        "sets it",
        "a ctypes or cffi callback? keep a reference to it for as long as native code may call it",
    ]
    if gone:
        steps.append("check whether a library was unloaded (dlclose) while it was still in use")
    title = f"{'return to' if came_back else 'call of'} {what}"
    if crash.fault is not None and not refused and is_executable(crash.fault.pc):
        title = f"data ran as code ({pc:#x}, {crash.fault.pc.kind})"
    cause = _came_back(crash.fault, gone=gone and not is_return) if came_back else _CALLED
    own = crashed.frames[0] if crashed.frames and not refused and not came_back else None
    if own is not None and own.module and own.function != "??":
        title, cause = f"the code of {short(own.function)} may not be executed", _LOST
        steps = ["strace -f -k -e trace=memory shows who changed that page, and from where"]
    yield Finding(
        title=title + by,
        cause=f"{crash.words}. {cause}",
        confidence=Confidence.CERTAIN if is_null_call else Confidence.LIKELY,
        next_steps=tuple(steps),
        evidence=tuple(evidence),
    )


def _was_in_gap(modules: Modules, address: int) -> bool:
    """Return whether an address lies between libraries, where an unloaded one may have been."""
    starts = [module.start for module in modules]
    ends = [module.end for module in modules]
    return bool(starts) and min(starts) < address < max(ends)


_LOST = (
    "A function of a file stands there: its page was unmapped, covered by another mapping, or lost "
    "the right to be executed (munmap, mmap with MAP_FIXED, mprotect on a wrong address)"
)
_CALLED = (
    "The call itself went wrong: a pointer that was never set, an object that was already freed, "
    "or an overwritten return address"
)


def _came_back(fault: Fault | None, *, gone: bool) -> str:
    if fault is not None and is_executable(fault.sp) and fault.sp.path is not None:
        return (
            f"The stack pointer {fault.sp.value:#x} points into code, which is no stack: it was "
            "loaded with a frame pointer that was overwritten on the stack, or by code that "
            "switches stacks"
        )
    overwritten = (
        "The return address on the stack was overwritten: an array on the stack of this function, "
        "or of one that it called, was written past its end"
    )
    if not gone:
        return (
            f"{overwritten}. Or nothing had called the code that returned: the first code of a "
            "program or of a hand-made stack"
        )
    return (
        "A function returned to where nothing is any more: the library there was unloaded "
        "(dlclose) while one of its functions was still running. Or the return address on the "
        "stack was overwritten"
    )
