"""Which functions of CPython may be called without the GIL, and who did so with others."""

from __future__ import annotations

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.names import bare
from postmortem.facts.threads import Threads
from postmortem.patterns import Pattern

_NEEDS_NO_GIL = Pattern(
    r"^(_?PyThread(?!State_(HasStack|Push|Pop))|PyMem_Raw|_PyMem_Raw|PyGILState|PyEval_(Acquire|Restore|Save|Release)|take_gil|"
    r"drop_gil|_?Py_(Fatal|Finalize|Initialize|Exit|RunMain|BytesMain)|faulthandler|_?PyOS_|pymain)"
)
_NO_OBJECT = Pattern(
    r"^(_?Py(Interpreter|Thread)State_\w+|_Py_object_freelists_GET|new_threadstate|get_state|"
    r"PyThreadState_New|PyGILState_Ensure|Py(List|Dict|Tuple|Set)_New|"
    r"_?PyErr_(Occurred|CheckSignals|Clear|Print|NoMemory)|PyRun_Simple\w+|PyImport_(Add|Import)Module|"
    r"Py(Long|Float|Bool|Unicode|Bytes)_From(Long|Double|S?size_t|Ssize_t|String\w*|Format))$"
)
"""Functions that are given no object: what is null there is the thread's or Python's own state."""
_NEAR = 4


def needs_no_gil(function: str) -> bool:
    """Return whether a function of CPython may be called without the GIL."""
    return _NEEDS_NO_GIL.search(function) is not None


def is_interpreter_known(threads: Threads) -> bool:
    """Return whether the core shows who may use the interpreter: it runs, and could be read."""
    return bool(threads.python_states) or any(
        t.holds_gil or any(f.kind == "python" for f in t.frames) for t in threads
    )


def api_without_gil(threads: Threads, kind: FaultKind | None = None) -> int | None:
    """Return the frame of the Python C API that the crashed thread was in without the GIL.

    None where it held the GIL or there is none, where the API does not need it, or where the
    interpreter's state could not be read, so that nobody's holding is known: unless it failed on a
    null pointer that nobody gave it, which is that state.
    """
    crashed = threads.crashed
    api = _api(threads)
    if crashed is None:
        return None
    if api is None:
        nameless = kind is FaultKind.NULL_DEREFERENCE and _is_nameless_api(threads)
        return 0 if nameless and threads.gil and not crashed.holds_gil else None
    passed = [bare(frame.function) for frame in crashed.frames[: api + 1]]
    is_known = is_interpreter_known(threads)
    if is_known and any(map(_NEEDS_NO_GIL.search, passed)):
        return None
    if is_known and crashed.holds_gil and any(f.kind == "python" for f in crashed.frames):
        return None  # its state is what runs these lines
    is_given_none = _NO_OBJECT.match(passed[0]) or (api <= _NEAR and _NO_OBJECT.match(passed[-1]))
    if kind is FaultKind.NULL_DEREFERENCE and is_given_none:
        return api
    return None if crashed.holds_gil or not threads.gil or not is_known else api


def _is_nameless_api(threads: Threads) -> bool:
    """Return whether a thread failed in the code of a running CPython, which is not here."""
    inner = next(iter(threads.crashed.frames), None) if threads.crashed is not None else None
    nameless = inner is not None and inner.function == "??" and owner(inner) is Owner.CPYTHON
    return nameless and is_interpreter_known(threads)


def _api(threads: Threads) -> int | None:
    """Return the outermost frame of CPython's own code that the crashed thread was in."""
    api = None
    for index, frame in enumerate(threads.crashed.frames[:12] if threads.crashed else ()):
        of_ctypes = api is not None and "_ctypes" in file_name(frame.module)
        if frame.kind == "python" or owner(frame) is not Owner.CPYTHON or of_ctypes:
            break
        api = index
    if api is None or threads.crashed is None:
        return None
    return api if threads.crashed.frames[api].function.startswith(("Py", "_Py")) else None
