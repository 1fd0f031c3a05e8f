"""The crash is directly under a call through ctypes or cffi.

What it means
    Python called a C function through ctypes, and that function, or one right under it,
    touched bad memory. ctypes checks nothing: without argtypes and restype, pointers are cut
    to 32 bits, NULL goes through, and buffers may already be freed.
How to be sure
    The frames of libffi stand a few frames below the fault. That the arguments are at fault
    is likely, not certain: the C function may have a bug of its own.
What to do
    Declare argtypes and restype for the function (c_void_p for pointers that are returned),
    check for None and 0, keep buffers alive while C uses them.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.foreign_calls import cut_pointer, dead_callback, spoken
from postmortem.diagnose.core.gil_use import api_without_gil
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.stacks import ctypes_index, fault_start
from postmortem.diagnose.names import bare, short
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.threads import Frame, Thread
from postmortem.patterns import Pattern

NEAR = 4
"""Native frames between the fault and ctypes that still make the arguments the first suspect."""


_POINTER_IS_BAD = ("bad_pointer", "null_dereference")


@rule("https://docs.python.org/3/library/ctypes.html#calling-functions")
def ctypes_call(crash: Crash) -> Findings:
    crashed = crash.crashed
    if not (crash.kind.is_memory_fault or crash.kind is FaultKind.RERAISED):
        return
    back = dead_callback(crash.kind, crash.threads)
    if back is not None:
        yield _callback(crashed, back, crash.cited)
        return
    start = fault_start(crashed, crash.kind)
    if start < len(crashed.frames) and _is_accessor(crashed.frames[start]):
        yield _object(crashed, start, crash.cited)
        return
    if crash.kind is FaultKind.RERAISED and start == 0:
        return
    index = ctypes_index(crashed, start + NEAR + 1)
    if index is None or index < start or start >= len(crashed.frames):
        return
    between = crashed.frames[start:index]
    if crash.kind is FaultKind.BAD_CALL and len(between) > 1:
        return  # the function that ctypes called has a bad pointer of its own
    if any(owner(frame) in (Owner.PYTORCH, Owner.CUDA, Owner.CUDA_DRIVER) for frame in between):
        return
    called = between[-1] if between else crashed.frames[index]
    name = bare(crashed.frames[index].function)
    if name in ("string_at", "wstring_at"):
        what = f"ctypes.{name}"
    elif called.function == "??" or owner(called) is Owner.LIBFFI:
        what = "a function without a name"
    else:
        what = short(spoken(called.function))
    cut = cut_pointer(crash.kind, crash.signal, crash.fault, crash.threads)
    if cut is not None:
        seen = (crash.cited, cite_frame(crashed, index))
        yield _cut(what, cut, (*seen, *cite_python(crashed)))
        return
    yield Finding(
        title=f"{what} failed on memory that Python gave it through ctypes",
        cause=f"Python called {what} through ctypes (or cffi), and it failed on the memory that it "
        "was given: a wrong, missing or freed pointer, or argtypes and restype that were not set. "
        "A bug of the C function itself looks the same",
        confidence=Confidence.LIKELY
        if index - start <= 3 and crash.kind is not FaultKind.RERAISED
        else Confidence.POSSIBLE,
        next_steps=(
            _print_arguments(what, crashed),
            "set argtypes and restype of that function; c_void_p for returned pointers, else they "
            "are cut to 32 bits",
            "keep a reference to every buffer and callback for as long as C uses it",
        ),
        evidence=(crash.cited, cite_frame(crashed, index), *cite_python(crashed)),
        # gil_not_held says what is wrong with the call, and it is not what it was given.
        role=Role.CONTRIBUTING if api_without_gil(crash.threads, crash.kind) is not None else None,
    )


def _print_arguments(what: str, crashed: Thread) -> str:
    line = cite_python(crashed)
    if not line:
        return f"find the Python line that calls {what} and print its arguments"
    return f"print the arguments that {line[0].what} gives to {what}"


_ACCESSOR = Pattern(r"^([a-zA-Z]|bool|vBOOL|[a-z]_sw|[iu](8|16|32|64)(_sw)?)_(get|set)(_sw)?$")
"""Getters and setters of Modules/_ctypes/cfield.c: `f_get`, `i_set_sw`."""


def _is_accessor(frame: Frame) -> bool:
    name = bare(frame.function)
    is_ctypes = "_ctypes" in file_name(frame.module)
    return is_ctypes and (_ACCESSOR.match(name) is not None or name.startswith("PyCData_"))


def _object(thread: Thread, index: int, signal: Evidence) -> Finding:
    """Return what a fault means when Python reads or writes a ctypes object, without any call."""
    return Finding(
        title="a ctypes object stands on memory that is not there",
        cause="Python read or wrote a ctypes object (a structure, an array, a pointer's contents), "
        "and its address is wrong, or its memory was freed or unmapped: from_address(), cast() and "
        "POINTER() take any number, and an index of a pointer is not checked",
        confidence=Confidence.LIKELY,
        next_steps=(
            "find the Python line and print ctypes.addressof() of the object, and the index",
            "keep what owns the memory (the tensor, the array, the mmap) alive for as long as "
            "ctypes objects stand on it",
        ),
        evidence=(signal, cite_frame(thread, index), *cite_python(thread)),
    )


def _callback(thread: Thread, index: int, signal: Evidence) -> Finding:
    """Return what a fault in libffi's closure means, called by native code."""
    frame = thread.frames[index]
    caller = short(spoken(frame.function)) if frame.function != "??" else file_name(frame.module)
    if owner(frame) is Owner.LIBFFI:
        caller = "Python itself"  # through the address, as a function that ctypes calls
    return Finding(
        title=f"{caller} called a ctypes callback that no longer exists",
        cause=f"{caller} called back into Python through libffi, and the closure of that callback "
        "was gone or overwritten: the CFUNCTYPE object was garbage-collected while native code "
        "still had its address",
        confidence=Confidence.LIKELY,
        next_steps=(
            "keep a reference to every CFUNCTYPE (or cffi callback) object for as long as native "
            "code may call it: in a global, or on the object that registered it",
            f"find who handed the callback to {caller}, and when it was registered",
        ),
        evidence=(signal, cite_frame(thread, index), *cite_python(thread)),
        explains=_POINTER_IS_BAD,
    )


def _cut(what: str, address: int, evidence: tuple[Evidence, ...]) -> Finding:
    """Return what an address with -1 in its upper half means under ctypes."""
    return Finding(
        title=f"{what}, called through ctypes, was given a pointer cut to 32 bits",
        cause=f"the upper half of the address {address:#x} is all ones: a 64-bit pointer went "
        "through a C int. ctypes takes every returned value for an int unless restype is set, and "
        "passes every Python int as one unless argtypes are",
        confidence=Confidence.LIKELY,
        next_steps=(
            "set restype = c_void_p of the function that returned the pointer (malloc, *_new, "
            "*_create), and argtypes of the one that takes it",
            f"find the Python line that calls {what} and print its arguments",
        ),
        evidence=evidence,
        explains=_POINTER_IS_BAD,
    )
