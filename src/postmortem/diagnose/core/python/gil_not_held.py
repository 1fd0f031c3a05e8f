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
from postmortem.diagnose.core.gil_use import api_without_gil
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.threads import Threads


@rule(
    "https://docs.python.org/3/c-api/init.html#thread-state-and-the-global-interpreter-lock",
    "https://pybind11.readthedocs.io/en/stable/advanced/misc.html#global-interpreter-lock-gil",
)
def gil_not_held(kind: FaultKind, threads: Threads) -> Findings:
    if not kind.is_memory_fault:
        return
    index = api_without_gil(threads)
    if index is None or threads.crashed is None:
        return
    crashed = threads.crashed
    name = short(crashed.frames[index].function, 40)
    holder = next((thread for thread in threads if thread.holds_gil), None)
    held = f"thread {holder.tid} holds it" if holder is not None else "no thread holds it"
    evidence = [
        cite_frame(crashed, index),
        Evidence("interpreter state", f"the crashed thread does not hold the GIL: {held}"),
    ]
    evidence.extend(cite_python(crashed))
    outside = index + 1
    if outside < len(crashed.frames):
        evidence.append(cite_frame(crashed, outside))
    yield Finding(
        title=f"the Python C API ({name}) was called without the GIL",
        cause=f"{name} needs the GIL, and the crashed thread did not hold it: {held}. Without it "
        "the function has no thread state to work on, or works beside the thread that has",
        confidence=Confidence.LIKELY,
        next_steps=(
            f"look at the code that called {name}: it must take the GIL first "
            "(PyGILState_Ensure, py::gil_scoped_acquire)",
            "called through ctypes? use ctypes.PyDLL or ctypes.pythonapi, which keep the GIL; "
            "ctypes.CDLL lets go of it",
        ),
        evidence=tuple(evidence),
    )
