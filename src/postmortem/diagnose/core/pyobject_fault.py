"""Where CPython touched an object that is none: in the collector, in its allocator, in a release.

Every function of the interpreter trusts the header of an object (reference count and type,
Include/object.h). What overwrote it, or freed it too early, was nearly always native code, earlier.
"""

from enum import StrEnum

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.gil_use import api_without_gil, is_interpreter_known, needs_no_gil
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.pointers import number_as_pointer
from postmortem.diagnose.core.stacks import fault_start
from postmortem.diagnose.names import bare
from postmortem.facts.crash import Fault, Signal
from postmortem.facts.threads import Frame, Thread, Threads
from postmortem.patterns import Pattern
from postmortem.records import record


class Touch(StrEnum):
    """What the interpreter was doing with the object."""

    COLLECTOR = "the garbage collector visited it"
    ALLOCATOR = "Python's allocator took or gave back a block"
    CHECK = "Python's debug allocator looked at a block that it was given back"
    RELEASE = "its last reference was released"
    USE = "it was used"
    NULL = "it was handed over as a null pointer"


@record
class ObjectFault:
    """A fault of CPython's own code on an object."""

    touch: Touch
    index: int
    """The frame that says what CPython was doing."""
    caller: int | None
    """The native frame that called CPython; None where Python code did."""


HEADER = 0x20
"""Bytes of an object that every type has: a smaller address means the object itself was NULL."""

_LONGEST = 24
"""CPython's frames between a fault and who called; deeper ones say nothing of the fault."""

_COLLECTOR = Pattern(
    r"^(gc_collect_(main|impl|region|increment|young|full|with_callback)|gc_reset_refs|"
    r"visit_(decref|reachable|move|add_to_container)|subtract_refs|update_refs|untrack_\w+|"
    r"(deduce|move)_(un)?reachable|move_legacy_finalizer\w*|delete_garbage|clear_weakrefs|"
    r"handle_weakrefs|finalize_garbage|collect(_generations|_with_callback)?|"
    r"_?PyGC_(Collect\w*|RunOne))$"
)
_ALLOCATOR = Pattern(
    r"^(pymalloc_\w+|_?Py(Object|Mem)_(Malloc|Calloc|Realloc|Free)|address_in_range|arena_map_get|"
    r"_PyObject_GC_(Alloc|Malloc|New|NewVar)|insert_to_(used|free)pool|allocate_from_new_pool)$"
)
_LINKS = Pattern(
    r"^(gc_list_(remove|append|move|merge)|_PyGCHead_\w+|_?PyObject_GC_(Un)?Track|PyObject_GC_Del|"
    r"_PyObject_GC_(UN)?TRACK)$"
)
"""What follows an object's neighbours among those that the collector watches."""
_CHECK = Pattern(r"^(_PyObject_DebugDumpAddress|_PyMem_Debug(CheckAddress|Raw\w+|Free|Realloc))$")
_RELEASE = Pattern(r"(^|_)[Dd]ealloc$|^_?Py_X?(DECREF|DecRef|Dealloc|CLEAR)\w*$|_dealloc(_part)?$")
_USE = Pattern(
    r"^(_?PyObject_\w+|_?PyType_(IsSubtype|HasFeature|Lookup\w*)|Py_(TYPE|SIZE|X?INCREF|IS_TYPE)|"
    r"do_richcompare|(_Py_)?dict_lookup|lookdict\w*|insertdict|_?PyDict_\w+|PyIter_\w+|"
    r"PySequence_\w+|PyMapping_\w+|PyNumber_\w+|PyList_\w+|PyTuple_\w+|slot_\w+|\w+_traverse|"
    r"_PyEval_EvalFrameDefault)$"
)


def object_fault(
    kind: FaultKind, signal: Signal | None, threads: Threads, fault: Fault | None = None
) -> ObjectFault | None:
    """Return what CPython was doing with an object when it failed on it, or None.

    None where other code failed, where the GIL was not held, and where the functions touch more
    than objects, so that a buffer could be what was bad.
    """
    crashed = threads.crashed
    if crashed is None or api_without_gil(threads, kind) is not None:
        return None
    again = kind is FaultKind.RERAISED and fault_start(crashed, kind) > 0 and _is_segv(signal)
    if not (kind.is_memory_fault or again):
        return None
    start = fault_start(crashed, kind) + (1 if kind is FaultKind.BAD_CALL else 0)
    run = _cpython_run(crashed, start)
    if not run or _is_protected(kind, fault):
        return None
    end = run[-1] + 1
    caller = None
    if end < len(crashed.frames) and crashed.frames[end].kind == "native":
        caller = end
        checks = _CHECK.match(bare(crashed.frames[start].function))
        if owner(crashed.frames[end]) is Owner.LIBFFI and not checks:
            return None  # ctypes_call
        if owner(crashed.frames[end]) is Owner.GLIBC:
            caller = None  # main() or exit() called, and they own no object
    if kind is FaultKind.NULL_DEREFERENCE and number_as_pointer(signal, fault) is None:
        return _null(threads, signal, run, caller)
    found = _touched(crashed, run, caller)
    if kind is FaultKind.BAD_CALL and found is not None and found.touch is Touch.ALLOCATOR:
        return None  # it calls nothing that a block holds
    if again and found is not None and found.touch is Touch.USE:
        return None  # without the address it could be a null pointer as well
    return found


def _is_protected(kind: FaultKind, fault: Fault | None) -> bool:
    """Whether an object could be read and not written, in memory of the process' own: somebody took
    the right away, and the object is sound."""
    at = fault.address if fault is not None and kind is FaultKind.NO_PERMISSION else None
    return (
        at is not None and at.kind in ("heap", "anonymous") and (at.permissions or "")[:2] == "r-"
    )


def _is_segv(signal: Signal | None) -> bool:
    return signal is not None and signal.name in ("SIGSEGV", "SIGBUS")


def _cpython_run(thread: Thread, start: int) -> list[int]:
    run: list[int] = []
    for index in range(start, min(len(thread.frames), start + _LONGEST)):
        if not _is_cpython(thread.frames[index]):
            break
        run.append(index)
    return run


def _is_cpython(frame: Frame) -> bool:
    if frame.kind != "native" or "_ctypes" in file_name(frame.module):
        return False
    if owner(frame) is Owner.CPYTHON:
        return True
    return frame.inlined and frame.function.startswith(("Py_", "_Py_", "_PyObject_"))


def _touched(thread: Thread, run: list[int], caller: int | None) -> ObjectFault | None:
    names = [bare(thread.frames[index].function) for index in run]
    if _CHECK.match(names[0]):
        return ObjectFault(Touch.CHECK, run[0], caller)
    if _ALLOCATOR.match(names[0]):
        return ObjectFault(Touch.ALLOCATOR, run[0], caller)
    for touch, pattern, within in (
        (Touch.COLLECTOR, _COLLECTOR, len(names)),
        (Touch.RELEASE, _RELEASE, 3),
        (Touch.USE, _USE, 1),
        (Touch.USE, _LINKS, 1),
    ):
        found = next((i for i, name in enumerate(names[:within]) if pattern.search(name)), None)
        if found is not None:
            return ObjectFault(touch, run[found], caller)
    return None


def _null(
    threads: Threads, signal: Signal | None, run: list[int], caller: int | None
) -> ObjectFault | None:
    """A null pointer is nobody's damage where an extension handed it over itself."""
    thread = threads.crashed
    if thread is None or signal is None or signal.address is None:
        return None
    names = [bare(thread.frames[index].function) for index in run]
    if _ALLOCATOR.match(names[0]):
        return ObjectFault(Touch.ALLOCATOR, run[0], caller)
    if any(_COLLECTOR.search(name) for name in names[:4]):
        return ObjectFault(Touch.COLLECTOR, run[0], caller)
    if _LINKS.match(names[0]):
        return ObjectFault(Touch.USE, run[0], caller)
    of_extension = caller is not None and owner(thread.frames[caller]) is Owner.EXTENSION
    if not is_interpreter_known(threads):
        return None  # finished, or not begun: then the thread's own state is what is null
    is_api = names[-1].startswith("Py") and not names[-1].startswith(("Py_X", "PyInit"))
    if of_extension and is_api and signal.address < HEADER and len(run) <= 4:
        return ObjectFault(Touch.NULL, run[-1], caller)
    return None


def intruder(threads: Threads) -> tuple[Thread, int] | None:
    """Return another thread that was at work on objects without the GIL, and the frame.

    Native code has to have called the interpreter there: what Python code calls may let go of the
    GIL in good order.
    """
    if not any(thread.holds_gil for thread in threads):
        return None
    for thread in threads.others():
        run = _cpython_run(thread, 0)
        end = run[-1] + 1 if run else 0
        if thread.holds_gil or not run or end >= len(thread.frames):
            continue
        names = [bare(thread.frames[index].function) for index in run]
        if thread.frames[end].kind == "python" or any(needs_no_gil(name) for name in names):
            continue
        released = next((i for i, name in enumerate(names) if _RELEASE.search(name)), None)
        if released is not None or names[-1].startswith(("Py", "_Py")):
            return thread, run[-1] if released is None else run[released]
    return None
