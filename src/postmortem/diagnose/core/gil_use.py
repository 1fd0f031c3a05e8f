"""Which functions of CPython may be called without the GIL, and who did so with others."""

from __future__ import annotations

from postmortem.diagnose.core.owners import Owner, owner
from postmortem.facts.threads import Threads
from postmortem.patterns import Pattern

_NEEDS_NO_GIL = Pattern(
    r"^(_?PyThread|PyMem_Raw|_PyMem_Raw|PyGILState|PyEval_(Acquire|Restore|Save|Release)|take_gil|"
    r"drop_gil|_?Py_(Fatal|Finalize|Initialize|Exit|RunMain|BytesMain)|faulthandler|_?PyOS_|pymain)"
)


def needs_no_gil(function: str) -> bool:
    """Return whether a function of CPython may be called without the GIL."""
    return _NEEDS_NO_GIL.search(function) is not None


def is_interpreter_known(threads: Threads) -> bool:
    """Return whether the core shows who may use the interpreter: it runs, and could be read."""
    return bool(threads.python_states) or any(
        t.holds_gil or any(f.kind == "python" for f in t.frames) for t in threads
    )


def api_without_gil(threads: Threads) -> int | None:
    """Return the frame of the Python C API that the crashed thread was in without the GIL.

    None where it held the GIL or there is none, where the API does not need it, or where the
    interpreter's state could not be read, so that nobody's holding is known.
    """
    crashed = threads.crashed
    if crashed is None or crashed.holds_gil or not threads.gil:
        return None
    if not is_interpreter_known(threads):
        return None
    api = None
    for index, frame in enumerate(crashed.frames[:12]):
        if frame.kind == "python" or owner(frame) is not Owner.CPYTHON:
            break
        if _NEEDS_NO_GIL.search(frame.function):
            return None
        api = index
    if api is None or not crashed.frames[api].function.startswith(("Py", "_Py")):
        return None
    return api
