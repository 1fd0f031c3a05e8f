"""The Python C API was called without the GIL.

What it means
    C or C++ code made, read or freed a Python object on a thread that did not hold the
    interpreter's lock. Without it there is no current thread state, so many functions read
    through a null pointer; others race with the thread that holds the lock.
How to be sure
    The interpreter's own state in the core says who held the GIL: not the crashed thread,
    although it was inside a function of the C API that needs it.
What to do
    Take the GIL around the call: PyGILState_Ensure and PyGILState_Release, or
    py::gil_scoped_acquire in pybind11. From ctypes use PyDLL or pythonapi, not CDLL, for
    functions of the Python API.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.gil_use import api_without_gil, is_interpreter_known
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.process import CoreFile
from postmortem.facts.threads import Threads


@rule(
    "https://docs.python.org/3/c-api/init.html#thread-state-and-the-global-interpreter-lock",
    "https://pybind11.readthedocs.io/en/stable/advanced/misc.html#global-interpreter-lock-gil",
)
def gil_not_held(kind: FaultKind, threads: Threads, core: CoreFile | None) -> Findings:
    if not kind.is_memory_fault:
        return
    index = api_without_gil(threads, kind)
    if index is None or threads.crashed is None:
        return
    crashed = threads.crashed
    function = crashed.frames[index].function
    name = "a function of it" if function == "??" else short(function, 40)
    holder = next((thread for thread in threads if thread.holds_gil), None)
    without = "a thread state"
    if not is_interpreter_known(threads) and core is not None and core.truncated:
        without = "the GIL, or without a thread state"
        held = "the core was cut before it; what is null here is a thread's state"
    elif not is_interpreter_known(threads):
        held = (
            "no thread has a state: the interpreter had not begun, or the state was deleted "
            "(Py_Finalize, PyGILState_Release)"
        )
    elif holder is crashed:
        held = "the thread took the GIL, and its state was swapped out or deleted since"
    else:
        without = "the GIL"
        by = f"thread {holder.tid} holds it" if holder is not None else "no thread holds it"
        held = f"the crashed thread does not hold the GIL: {by}"
    evidence = [cite_frame(crashed, index), Evidence("interpreter state", held)]
    evidence.extend(cite_python(crashed))
    outside = index + 1
    if outside < len(crashed.frames):
        evidence.append(cite_frame(crashed, outside))
    yield Finding(
        title=f"the Python C API ({name}) was called without {without}",
        cause=f"{name} needs an interpreter and the GIL: {held}. Without them the function has no "
        "thread state to work on, or works beside the thread that has",
        confidence=Confidence.LIKELY,
        next_steps=(
            f"look at the code that called {name}: it must take the GIL first "
            "(PyGILState_Ensure, py::gil_scoped_acquire)",
            "called through ctypes? use ctypes.PyDLL or ctypes.pythonapi, which keep the GIL; "
            "ctypes.CDLL lets go of it",
        ),
        evidence=tuple(evidence),
    )
