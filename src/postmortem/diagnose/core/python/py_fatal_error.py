"""The interpreter stopped itself: a fatal Python error.

What it means
    CPython found itself in a state that must not be and called Py_FatalError. Most often
    native code used the C API without holding the GIL, released an object too often, or wrote
    over a Python object; also an interpreter that cannot start (wrong PYTHONHOME).
How to be sure
    Py_FatalError (or fatal_error) is on the stack; the function that called it made the
    check. The message stands on standard error ("Fatal Python error: …"); it is read from the
    registers that CPython saved, from what it printed last, or from the frame's arguments where
    gdb shows them. Without a message the functions' names alone say what it may have been.
What to do
    Read the message. For the GIL: the first frame outside CPython is the code that called
    without it. For damaged objects: PYTHONMALLOC=debug and a debug build of Python.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.gil_use import is_interpreter_known
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.stacks import is_nameless
from postmortem.diagnose.names import bare, clip, short
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.crash import FatalPythonError
from postmortem.facts.threads import Frame, Thread, Threads
from postmortem.patterns import Pattern

_FATAL = Pattern(
    r"^(fatal_error(_exit)?|_?Py_FatalError\w*|_Py_FatalErrorFunc|Py_ExitStatusException)$"
)
_GIL = Pattern(
    r"TstateNULL|PyThreadState_(Get|Swap)|PyEval_(SaveThread|RestoreThread|Acquire|"
    r"Release)\w*|PyGILState_Release|ensure_tstate_not_null|_Py_EnsureFuncTstateNotNULL|"
    r"PyInterpreterState_Get|_PyMem_DebugCheckGIL|_PyThreadState_(Attach|Detach)"
)
_REFCOUNT = Pattern(r"_Py_FatalRefcountError\w*|none_dealloc|_Py_NegativeRefcount")
_RECURSION = Pattern(r"_Py_CheckRecursiveCall|_Py_EnterRecursive")
_MEMORY = Pattern(
    r"_?Py(Mem|Object)_Debug|_PyMem_Debug|_PyObject_AssertFailed|bad_parent|"
    r"gc_|_Py_NegativeRefcount"
)
_START = Pattern(r"Py_ExitStatusException|Py_Initialize\w*|init_|pyinit_|Py_BytesMain|pymain_")


@rule(
    "https://docs.python.org/3/c-api/sys.html#c.Py_FatalError",
    "https://docs.python.org/3/c-api/init.html#thread-state-and-the-global-interpreter-lock",
    "https://github.com/bloomberg/memray/issues/227",
)
def py_fatal_error(kind: FaultKind, threads: Threads, error: FatalPythonError | None) -> Findings:
    crashed = threads.crashed
    if crashed is None or kind is not FaultKind.ABORT:
        return
    fatal = [i for i, f in enumerate(crashed.frames[:16]) if _FATAL.match(bare(f.function))]
    # A program may have a fatal_error of its own: one of the frames must be CPython's for sure.
    if not any(_is_cpython(crashed.frames[i]) for i in fatal):
        if error is not None and is_nameless(crashed) and crashed.handler_index is None:
            yield _without_names(threads, crashed, error)
        return
    check = _outside(crashed, fatal[-1] + 1)
    names = " ".join(bare(frame.function) for frame in crashed.frames[fatal[0] : fatal[-1] + 3])
    message = error.message or None if error is not None else None
    what, cause, step = _meaning(names, error)
    evidence = [cite_frame(crashed, fatal[-1])]
    by = ""
    user = next(
        (
            i
            for i in range(fatal[-1] + 1, len(crashed.frames))
            if owner(crashed.frames[i]) not in (Owner.CPYTHON, Owner.GLIBC, None)
            and not (crashed.frames[i].inlined and _is_cpython(crashed.frames[i]))
        ),
        None,
    )
    if check is not None:
        evidence.append(cite_frame(crashed, check))
    if user is not None and user != check:
        evidence.append(cite_frame(crashed, user))
    if user is not None:
        frame = crashed.frames[user]
        name = short(frame.function, 40) if frame.function != "??" else file_name(frame.module)
        through = owner(frame) is Owner.LIBFFI
        by = ", called through ctypes" if through else f", called by {name}"
    evidence.extend(cite_python(crashed))
    whole = message is not None and not message.endswith("…")  # it is in the cause
    read = () if whole else ('read the line "Fatal Python error: …" on standard error',)
    yield Finding(
        title=f"fatal Python error: {_head(message, what, 48 if by else 79)}{by}",
        cause=f"{cause}; it said: {clip(message, 300)}" if message else cause,
        confidence=Confidence.CERTAIN if message else Confidence.LIKELY,
        next_steps=(*read, step),
        evidence=tuple(evidence),
    )


def _without_names(threads: Threads, crashed: Thread, error: FatalPythonError) -> Finding:
    """Return the same of an interpreter that is not here: what it said is in its file."""
    no_gil = threads.gil and not crashed.holds_gil and is_interpreter_known(threads)
    what, cause, step = _meaning("PyThreadState_Get" if no_gil else "", error)
    seen = "abort() returns to CPython's code, between it and its caller lie two constant texts"
    said = f"; it said: {clip(error.message, 300)}" if error.message else ""
    return Finding(
        title=f"fatal Python error: {_head(error.message or None, what, 79)}",
        cause=cause + said,
        confidence=Confidence.LIKELY,
        next_steps=('read the line "Fatal Python error: …" on standard error', step),
        evidence=(Evidence(f"stack of thread {crashed.tid}", seen), *cite_python(crashed)),
    )


_GENERAL = "the interpreter stopped itself"


def _head(message: str | None, what: str, limit: int) -> str:
    """Return the message where it fits; a meaning is better than half a sentence."""
    is_cut = message is not None and (message.endswith("…") or len(message) > limit)
    if message is None or (what != _GENERAL and is_cut):
        return clip(what, limit)
    return clip(message, limit)


def _meaning(names: str, error: FatalPythonError | None) -> tuple[str, str, str]:
    """Return what was found, what it means and what to do, from the functions and the message."""

    def said(name: str) -> bool:
        return error is not None and error.match(name) is not None

    if said("py-state-in-use"):
        return (
            "a thread state was deleted while its thread ran on it",
            "native code deleted the thread state that the calling thread still has",
            "PyThreadState_DeleteCurrent(), or PyThreadState_Swap(NULL) first; not what "
            "PyGILState_Ensure made",
        )
    if said("py-other-family"):
        return (
            "a block was released by another family of functions than the one that gave it",
            "Python has three allocators (r: PyMem_Raw…, m: PyMem_…, o: PyObject_…), and a block "
            "goes back to the one that it is from",
            "in the native code named: pair PyMem_RawMalloc with PyMem_RawFree, PyMem_Malloc with "
            "PyMem_Free, PyObject_Malloc with PyObject_Free",
        )
    if _GIL.search(names) or said("py-no-gil"):
        return (
            "the C API was used without the GIL",
            "native code called the Python C API on a thread that does not hold the GIL (or with a "
            "thread state that is not current)",
            "in the native code named: take the GIL (PyGILState_Ensure, gil_scoped_acquire) before "
            "it touches Python objects",
        )
    if _RECURSION.search(names) or said("py-stack-overflow"):
        return (
            "Python could not recover from a stack overflow",
            "the recursion limit was passed again while RecursionError was being handled",
            "look for an except clause that recurses itself, and for sys.setrecursionlimit",
        )
    if _REFCOUNT.search(names) or said("py-deallocating"):
        return (
            "deallocating None",
            "None (or another immortal object) was released once too often: native code "
            "released references that it did not own, maybe one in each call for hours",
            "in native code: Py_RETURN_NONE or Py_INCREF(Py_None) before returning None; no "
            "Py_DECREF of borrowed references (PyList_GetItem, PyDict_GetItem, arguments)",
        )
    if _MEMORY.search(names) or said("py-damaged"):
        return (
            "a Python object is damaged",
            "a check of an object or memory block failed: native code wrote past a buffer or "
            "released a reference that was not its own",
            "PYTHONMALLOC=debug python -X dev … ; suspect the native modules of your own first",
        )
    if _START.search(names):
        return (
            "the interpreter could not start",
            "Python could not find or start its library",
            "unset PYTHONHOME and PYTHONPATH; is this environment whole (moved, half installed)?",
        )
    return (
        _GENERAL,
        "CPython found itself in an impossible state",
        "PYTHONMALLOC=debug python -X dev … may find it earlier",
    )


def _is_cpython(frame: Frame) -> bool:
    return "Py_" in frame.function or owner(frame) is Owner.CPYTHON


def _outside(thread: Thread, start: int) -> int | None:
    return start if start < len(thread.frames) else None
